/** Runs the service's verbs in this process, with a process's own services. */
import { type Effect, Layer, ManagedRuntime } from "effect"
import { afterAll } from "vitest"
import { KEYS } from "../../scripts/server.ts"
import { servicesLayer } from "../../src/app/services.ts"
import type { EncryptionKey } from "../../src/config/Config.ts"
import { poolLayer } from "../../src/db/database.ts"
import { SharedSecrets } from "../../src/security/secret/SharedSecrets.ts"
import { Vault } from "../../src/security/secret/Vault.ts"
import type { TestDatabase } from "./database.ts"

type Services = Layer.Success<ReturnType<typeof servicesLayer>>

/** Opens the service's own secrets in a database, with these keys. */
export const secretsLayer = (database: TestDatabase, keys: ReadonlyArray<EncryptionKey> = KEYS) =>
  SharedSecrets.asTheyAre.pipe(Layer.provide(Layer.merge(poolLayer(database.url(), 1), Vault.layer(keys))))

/** Call at the top of a test file. The services start with the first program and stay: starting jobs is slow. */
export const useServices = (database: TestDatabase) => {
  let runtime: ManagedRuntime.ManagedRuntime<Services, unknown> | undefined
  afterAll(() => runtime?.dispose())
  return <A, E>(program: Effect.Effect<A, E, Services>): Promise<A> => {
    runtime ??= ManagedRuntime.make(servicesLayer(database.url(), KEYS))
    return runtime.runPromise(program)
  }
}
