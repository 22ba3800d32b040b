/**
 * The service's own secrets, as processes use them. A cell that joins a deployment takes over the deployment's secrets (decision
 * O1) while its servers run: they get a notification and use the new secrets.
 */
import { Context, Effect, Layer, type Redacted } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { ConfigProblem } from "../../config/Config.ts"
import { type Listener, onNotify } from "../../process/Listener.ts"
import { SECRETS_CHANNEL, serviceSecret } from "./serviceSecrets.ts"
import type { Vault } from "./Vault.ts"

/** In case a notification was lost. */
const LOOK_EVERY_MS = 30_000

type Secret = Redacted.Redacted<Uint8Array>

/** Makes a cache of the secrets that were read, which can read them all again. */
const makeCache = Effect.gen(function* () {
  const context = yield* Effect.context<SqlClient.SqlClient | Vault>()
  const secrets = new Map<string, Secret>()
  const read = (name: string) =>
    serviceSecret(name).pipe(
      Effect.tap((secret) => Effect.sync(() => secrets.set(name, secret))),
      Effect.provideContext(context),
    )
  return {
    get: (name: string) => Effect.as(read(name), () => secrets.get(name)!),
    readAgain: Effect.suspend(() => Effect.forEach([...secrets.keys()], read, { discard: true })),
  }
})

export class SharedSecrets extends Context.Service<
  SharedSecrets,
  {
    /** Returns a function that returns the current secret of this name, 32 bytes. The first call creates the secret. */
    readonly get: (name: string) => Effect.Effect<() => Secret, SqlError.SqlError | ConfigProblem>
  }
>()("billing/security/secret/SharedSecrets") {
  /** For commands: secrets stay as they are at the first read. */
  static readonly asTheyAre: Layer.Layer<SharedSecrets, never, SqlClient.SqlClient | Vault> = Layer.effect(
    SharedSecrets,
    Effect.map(makeCache, ({ get }) => SharedSecrets.of({ get })),
  )

  /** For servers: secrets are read again after each change. */
  static readonly layer: Layer.Layer<SharedSecrets, never, SqlClient.SqlClient | Listener | Vault> = Layer.effect(
    SharedSecrets,
    Effect.gen(function* () {
      const { get, readAgain } = yield* makeCache
      yield* onNotify("service secrets", SECRETS_CHANNEL, LOOK_EVERY_MS, readAgain)
      return SharedSecrets.of({ get })
    }),
  )
}
