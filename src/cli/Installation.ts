/** The installation that a command works on, beside whatever servers run on it. */
import { Context, Effect, Layer, type Redacted } from "effect"
import { Command } from "effect/cli"
import { Cell } from "../base/cell.ts"
import { requireCell } from "../cells/identity.ts"
import type { Config } from "../config/Config.ts"
import { readConfig } from "../config/readConfig.ts"
import { databaseUrl, poolLayer } from "../db/database.ts"
import { migrate } from "../postgres/migrate.ts"
import { requireAgreement } from "../process/DatabaseClock.ts"
import { encryptionKeys, existingKeys } from "../security/secret/encryptionKeys.ts"
import { Vault } from "../security/secret/Vault.ts"

/** A command does one thing at a time; a second connection is for what it does outside of its transaction. */
const MAX_CONNECTIONS = 2

export class Installation extends Context.Service<
  Installation,
  {
    readonly config: Config
    /** The address of its database. */
    readonly url: Redacted.Redacted<string>
    /** The keys that its secrets lie under, newest first: of one of our own, made where there are none. */
    readonly keys: ReturnType<typeof encryptionKeys>
  }
>()("billing/cli/Installation") {
  static readonly layer = Layer.effect(
    Installation,
    Effect.gen(function* () {
      const config = yield* readConfig(process.env, { development: false })
      return Installation.of({ config, url: yield* databaseUrl(config), keys: encryptionKeys(config) })
    }),
  )
}

/** The installation and its database, as they are. */
export const connected = Layer.unwrap(
  Effect.map(Installation, ({ config, url }) =>
    Layer.merge(poolLayer(url, MAX_CONNECTIONS), Layer.succeed(Cell, config.cell)),
  ),
).pipe(Layer.provideMerge(Installation.layer))

/** The installation and its database, which has all the tables that this version knows. */
export const migrated = Layer.effectDiscard(Effect.andThen(migrate, requireCell)).pipe(Layer.provideMerge(connected))

/** The same, where this machine's clock agrees with the database's: for commands that write (decision D10). */
export const writable = Layer.effectDiscard(requireAgreement).pipe(Layer.provideMerge(migrated))

/** A command that reads such an installation. */
export const onMigrated = <Name extends string, Input, Shared, E, R>(
  command: Command.Command<Name, Input, Shared, E, R>,
) => Command.provide(command, migrated)

/** A command that writes to it. */
export const onWritable = <Name extends string, Input, Shared, E, R>(
  command: Command.Command<Name, Input, Shared, E, R>,
) => Command.provide(command, writable)

/** What opens the installation's secrets. */
export const vault = Layer.unwrap(Effect.flatMap(Installation, ({ keys }) => Effect.map(keys, Vault.layer)))

/** The same where what it seals is for servers, which are to open it: a key that they may not have is not made. */
export const vaultOfServers = Layer.unwrap(
  Effect.flatMap(Installation, ({ config }) => Effect.map(existingKeys(config), Vault.layer)),
)
