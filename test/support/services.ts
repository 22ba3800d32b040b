/** The service's verbs in this process, as a process of its own would have them. */
import { type Effect, type Layer, ManagedRuntime } from "effect"
import { afterAll } from "vitest"
import { KEYS } from "../../scripts/server.ts"
import { servicesLayer } from "../../src/services.ts"
import type { TestDatabase } from "./database.ts"

type Services = Layer.Success<ReturnType<typeof servicesLayer>>

/** Call at the top of a test file. They start with the first program and stay: their jobs take longer to start than to run. */
export const useServices = (database: TestDatabase) => {
  let runtime: ManagedRuntime.ManagedRuntime<Services, unknown> | undefined
  afterAll(() => runtime?.dispose())
  return <A, E>(program: Effect.Effect<A, E, Services>): Promise<A> => {
    runtime ??= ManagedRuntime.make(servicesLayer(database.url(), KEYS))
    return runtime.runPromise(program)
  }
}
