/** The installation that a command works on, while servers may run on it. */
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

/** A command does one thing at a time; the second connection is for statements outside its transaction. */
const MAX_CONNECTIONS = 2

export class Installation extends Context.Service<
  Installation,
  {
    readonly config: Config
    /** The address of its database. */
    readonly url: Redacted.Redacted<string>
    /** The keys that encrypt its secrets, newest first. An installation without a configured key creates its own. */
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

/** The installation and its database, without changes. */
export const connected = Layer.unwrap(
  Effect.map(Installation, ({ config, url }) =>
    Layer.merge(poolLayer(url, MAX_CONNECTIONS), Layer.succeed(Cell, config.cell)),
  ),
).pipe(Layer.provideMerge(Installation.layer))

/** The installation and its database, after all migrations of this version. */
export const migrated = Layer.effectDiscard(Effect.andThen(migrate, requireCell)).pipe(Layer.provideMerge(connected))

/** The same, for commands that write: this machine's clock must agree with the database's (decision D10). */
export const writable = Layer.effectDiscard(requireAgreement).pipe(Layer.provideMerge(migrated))

/** Provides a migrated installation to a command that reads it. */
export const onMigrated = <Name extends string, Input, Shared, E, R>(
  command: Command.Command<Name, Input, Shared, E, R>,
) => Command.provide(command, migrated)

/** Provides a migrated installation to a command that writes to it. */
export const onWritable = <Name extends string, Input, Shared, E, R>(
  command: Command.Command<Name, Input, Shared, E, R>,
) => Command.provide(command, writable)

/** The vault that decrypts the installation's secrets. */
export const vault = Layer.unwrap(Effect.flatMap(Installation, ({ keys }) => Effect.map(keys, Vault.layer)))

/** The vault for secrets that servers must decrypt: it never creates a key, because the servers might not have it. */
export const vaultOfServers = Layer.unwrap(
  Effect.flatMap(Installation, ({ config }) => Effect.map(existingKeys(config), Vault.layer)),
)
