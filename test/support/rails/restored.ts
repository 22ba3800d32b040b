/** Restores a database from a backup, while its rail keeps its current state. */
import { Effect, ManagedRuntime, Redacted } from "effect"
import { afterAll, beforeAll, expect } from "vitest"
import { KEYS } from "../../../scripts/server.ts"
import { servicesLayer } from "../../../src/app/services.ts"
import { chargeTimers } from "../../../src/billing/payments/simulatorCharges.ts"
import { refundTimers } from "../../../src/billing/refund/calls.ts"
import { subscriptionTimers } from "../../../src/billing/subscription/timers.ts"
import type { OutsideRail } from "../../../src/rails/rail/Rail.ts"
import { sweep } from "../../../src/runtime/fire.ts"
import { createDatabase, type OwnDatabase, type TestDatabase } from "../database.ts"
import { rewind } from "../rewind.ts"
import { runToEnd, type Server, startServer } from "../server.ts"
import { startFlutterwave } from "./flutterwave.ts"
import { type LiveAccount, openLiveAccount } from "./live.ts"
import { startPaystack } from "./paystack.ts"
import type { StandIn } from "./standIn.ts"

const START = { paystack: startPaystack, flutterwave: startFlutterwave }

type Services = ManagedRuntime.ManagedRuntime<never, unknown>

/** Call at the top of a test file or a `describe`: a rail, a server, and a database that can be restored. */
export const useRestorable = (name: OutsideRail) => {
  let rail: StandIn
  let current = createDatabase()
  let backup: OwnDatabase | undefined
  let server: Server | undefined
  let services: Services | undefined
  /** The time that has passed since the backup, by account. */
  const passed = new Map<string, number>()
  const database: TestDatabase = {
    url: () => current.url(),
    run: (program) => current.run(program),
    write: (writes) => current.write(writes),
  }
  const settings = () => ({ [`${name.toUpperCase()}_URL`]: rail.url, RAIL_TIMEOUT: "5", QUIET_HOURS: "off" })
  const fire = () => {
    services ??= ManagedRuntime.make(servicesLayer(database.url(), KEYS)) as unknown as Services
    return services.runPromise(
      Effect.scoped(sweep([chargeTimers, subscriptionTimers, refundTimers])) as Effect.Effect<number>,
    )
  }
  const start = async () => {
    server = await startServer(database.url(), settings())
  }
  const stop = async () => {
    await services?.dispose()
    services = undefined
    if (server !== undefined) expect(await server.stop()).toBe(0)
    server = undefined
  }
  beforeAll(async () => {
    rail = await START[name]()
    await current.create()
    await start()
  })
  afterAll(async () => {
    await stop()
    await rail.close()
    await current.drop()
    await backup?.drop()
  })
  return {
    database,
    rail: () => rail,
    origin: () => server!.origin,
    start,
    stop,
    open: async (): Promise<LiveAccount> => {
      const account = await openLiveAccount({ database, origin: () => server!.origin, fire }, name, rail)
      return {
        ...account,
        pass: async (ms) => {
          if (backup !== undefined) passed.set(account.id, (passed.get(account.id) ?? 0) + ms)
          await account.pass(ms)
        },
      }
    },
    /** No server runs while the database is copied. */
    backUp: async () => {
      await stop()
      backup = await current.copy()
      await start()
    },
    /** The backup replaces the database. No server runs, and the same time passes as for the rail. */
    putBack: async () => {
      await stop()
      await current.drop()
      current = backup!
      backup = undefined
      for (const [account, ms] of passed) await current.run(() => rewind(account, ms))
      passed.clear()
    },
    /** `cli rail recover`. `errors` if it failed. */
    recover: async (since: number, ...more: ReadonlyArray<string>) => {
      const args = ["rail", "recover", "--since", new Date(since).toISOString(), ...more, "--json"]
      const env = { DATABASE_URL: Redacted.value(database.url()), ...settings() }
      const { code, output, errors } = await runToEnd("src/cli.ts", args, env)
      return { code, errors, shown: output === "" ? undefined : JSON.parse(output) }
    },
  }
}
