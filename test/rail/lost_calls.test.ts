/** Tests a process that dies during a call that never arrived: the same charge is sent once more (decision P9). */
import { Effect } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { chargeTimers } from "../../src/billing/payments/simulatorCharges.ts"
import type { OutsideRail } from "../../src/rails/rail/Rail.ts"
import { sweep } from "../../src/runtime/fire.ts"
import { useDatabase } from "../support/database.ts"
import { faults } from "../support/rails/fault.ts"
import { startFlutterwave } from "../support/rails/flutterwave.ts"
import { BOTH, DUE, type LiveAccount, openLiveAccount } from "../support/rails/live.ts"
import { startPaystack } from "../support/rails/paystack.ts"
import type { StandIn } from "../support/rails/standIn.ts"
import { rewind } from "../support/rewind.ts"
import { startServer } from "../support/server.ts"
import { useServices } from "../support/services.ts"
import { data, eventually } from "../support/story.ts"
import { expectWhole } from "../support/whole.ts"

const PRICE = 500_000
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

const START = { paystack: startPaystack, flutterwave: startFlutterwave }

const useWorld = (name: OutsideRail) => {
  const database = useDatabase()
  const services = useServices(database)
  let rail: StandIn
  beforeAll(async () => {
    rail = await START[name]()
  })
  afterAll(() => rail.close())
  return {
    database,
    rail: () => rail,
    fire: () => services(Effect.scoped(sweep([chargeTimers]))),
    serve: () => startServer(database.url(), { [`${name.toUpperCase()}_URL`]: rail.url, RAIL_TIMEOUT: "20" }),
  }
}

describe.each(BOTH)("%s", (name) => {
  const world = useWorld(name)

  /** Subscriptions whose renewals' process was killed before the rail received any, and a server that runs. */
  const kill = async (count: number) => {
    const { database, fire } = world
    const rail = world.rail()
    let server = await world.serve()
    const account = await openLiveAccount({ database, origin: () => server.origin, fire }, name, rail)
    const subscriptions = await Promise.all(
      Array.from({ length: count }, async (_, index) => account.subscribe(PRICE + index)),
    )
    expect(await server.stop()).toBe(0)
    await database.run(() => rewind(account.id, DUE))
    account.plan(
      "charge",
      Array.from({ length: count }, () => faults.silenceBefore("hang")),
    )
    const dying = await world.serve()
    await eventually(async () => (rail.underWay() === count ? true : undefined))
    await dying.kill()
    server = await world.serve()
    const charges = await Promise.all(subscriptions.map(async (id) => (await account.latest(id)).id as string))
    for (const id of charges)
      await eventually(async () => ((await account.see(id)).state === "pending.waiting" ? true : undefined))
    return { account, server, subscriptions, charges }
  }
  const sent = ({ rail }: LiveAccount, charge: string) =>
    rail.calls.of("charge").filter(({ reference }) => reference.slice(4) === charge.slice(4)).length
  /** Verifies until a charge was unknown three times, over ten minutes. */
  const askUntilOver = async (account: LiveAccount, charge: string) => {
    for (const after of [10_000, MINUTE_MS, 5 * MINUTE_MS]) {
      expect((await account.see(charge)).ask_after_ms).toBe(after)
      expect(await account.ask(charge)).toMatchObject({ state: "pending.waiting" })
    }
    expect((await account.see(charge)).ask_after_ms).toBe(HOUR_MS)
    const { sent_at, ask_after_ms } = await account.see(charge)
    await account.pass(Math.ceil(sent_at + ask_after_ms! - Date.now()))
  }

  it("succeeds at the second call, and the customer's payment has not failed", { timeout: 120_000 }, async () => {
    const { account, server, charges, subscriptions } = await kill(1)
    const [charge, subscription] = [charges[0]!, subscriptions[0]!]
    await askUntilOver(account, charge)
    expect(await account.settled(charge)).toMatchObject({ status: "succeeded", attempt_number: 1 })
    expect(sent(account, charge)).toBe(2)
    expect(account.merchant.books.get(charge).taken).toEqual([PRICE])
    expect(await account.events(charge)).toEqual(["charge.succeeded succeeded"])
    expect(data(await account.api.get(`/subscriptions/${subscription}`)).status).toBe("active")
    expect(await server.stop()).toBe(0)
    await expectWhole(world.database)
  })

  it("fails if the rail still does not know it, or if it is cancelled by then", {
    timeout: 120_000,
  }, async () => {
    const { account, server, charges, subscriptions } = await kill(2)
    const [lost, cancelled] = [charges[0]!, charges[1]!]
    data(await account.api.post(`/subscriptions/${subscriptions[1]}/cancel`, { at_period_end: false }))
    account.plan("charge", faults.silenceBefore("cut"), PRICE)
    await askUntilOver(account, lost)
    expect(await account.settled(cancelled)).toMatchObject({ status: "failed", failure_code: "processor_error" })
    expect(sent(account, cancelled)).toBe(1)
    await eventually(async () => {
      const { state, asks } = await account.see(lost)
      return state === "pending.waiting" && asks === 0 ? true : undefined
    })
    expect(sent(account, lost)).toBe(2)
    await askUntilOver(account, lost)
    expect(await account.settled(lost)).toMatchObject({
      status: "failed",
      failure_code: "processor_error",
      will_retry: true,
    })
    expect(sent(account, lost)).toBe(2)
    expect(await account.events(lost)).toEqual(["charge.failed failed", "charge.retry_scheduled failed"])
    expect(await server.stop()).toBe(0)
    await expectWhole(world.database)
  })
})
