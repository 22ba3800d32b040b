/**
 * The service's own secrets as processes use them. A cell that joins a deployment takes over the deployment's (decision O1),
 * beside servers that run: they hear of it and go on with those.
 */
import { Context, Effect, Layer, type Redacted } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { ConfigProblem } from "../../config/Config.ts"
import { type Listener, onNotify } from "../../process/Listener.ts"
import { SECRETS_CHANNEL, serviceSecret } from "./serviceSecrets.ts"
import type { Vault } from "./Vault.ts"

/** In case a notice was lost. */
const LOOK_EVERY_MS = 30_000

type Secret = Redacted.Redacted<Uint8Array>

/** The secrets that were asked for, and what reads them again. */
const makeKnown = Effect.gen(function* () {
  const surroundings = yield* Effect.context<SqlClient.SqlClient | Vault>()
  const known = new Map<string, Secret>()
  const read = (name: string) =>
    serviceSecret(name).pipe(
      Effect.tap((secret) => Effect.sync(() => known.set(name, secret))),
      Effect.provideContext(surroundings),
    )
  return {
    get: (name: string) => Effect.as(read(name), () => known.get(name)!),
    readAgain: Effect.suspend(() => Effect.forEach([...known.keys()], read, { discard: true })),
  }
})

export class SharedSecrets extends Context.Service<
  SharedSecrets,
  {
    /** What tells the secret of this name, as it is at the time; whoever asks first makes it. 32 bytes. */
    readonly get: (name: string) => Effect.Effect<() => Secret, SqlError.SqlError | ConfigProblem>
  }
>()("billing/secret/SharedSecrets") {
  /** For commands: as they are when they are first asked for. */
  static readonly asTheyAre: Layer.Layer<SharedSecrets, never, SqlClient.SqlClient | Vault> = Layer.effect(
    SharedSecrets,
    Effect.map(makeKnown, ({ get }) => SharedSecrets.of({ get })),
  )

  /** For servers: as they are at the time. */
  static readonly layer: Layer.Layer<SharedSecrets, never, SqlClient.SqlClient | Listener | Vault> = Layer.effect(
    SharedSecrets,
    Effect.gen(function* () {
      const { get, readAgain } = yield* makeKnown
      yield* onNotify("service secrets", SECRETS_CHANNEL, LOOK_EVERY_MS, readAgain)
      return SharedSecrets.of({ get })
    }),
  )
}
