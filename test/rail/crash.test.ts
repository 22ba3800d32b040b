/** Tests processes that die during calls to rails, and two in parallel: a charge is sent once (decisions F1, P11). */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { OutsideRail } from "../../src/rails/rail/Rail.ts"
import { type TestDatabase, useDatabase } from "../support/database.ts"
import { faults } from "../support/rails/fault.ts"
import { startFlutterwave } from "../support/rails/flutterwave.ts"
import { DUE, expectSameMoney, type LiveAccount, openLiveAccount } from "../support/rails/live.ts"
import { startPaystack } from "../support/rails/paystack.ts"
import type { StandIn } from "../support/rails/standIn.ts"
import { rewind } from "../support/rewind.ts"
import { type Server, startServer } from "../support/server.ts"
import { eventually } from "../support/story.ts"
import { expectWhole } from "../support/whole.ts"

const PRICE = 500_000
const ACCOUNTS = 3
const EACH = 8
const ASK_MS = 10_000

const START = { paystack: startPaystack, flutterwave: startFlutterwave }

/** A rail and its accounts. One for each test, since the tests run in parallel. */
const useWorld = (name: OutsideRail) => {
  const database = useDatabase()
  let rail: StandIn
  beforeAll(async () => {
    rail = await START[name]()
  })
  afterAll(() => rail.close())
  const serve = () => startServer(database.url(), { [`${name.toUpperCase()}_URL`]: rail.url, RAIL_TIMEOUT: "20" })
  return {
    database,
    rail: () => rail,
    serve,
    /** Accounts whose subscriptions are all due at the next start: no server runs. */
    dueAtStart: async (): Promise<ReadonlyArray<LiveAccount>> => {
      const server = await serve()
      const around = { database, origin: () => server.origin, fire: () => Promise.resolve() }
      const accounts = await Promise.all(Array.from({ length: ACCOUNTS }, () => openLiveAccount(around, name, rail)))
      for (const account of accounts) {
        const buyer = await account.buyer()
        await Promise.all(Array.from({ length: EACH }, () => account.subscribe(PRICE, buyer)))
      }
      expect(await server.stop()).toBe(0)
      await passAll(database, accounts, DUE)
      rail.calls.log.splice(0)
      return accounts
    },
    expectAllOnce: async (accounts: ReadonlyArray<LiveAccount>) => {
      const references = rail.calls.of("charge").map(({ reference }) => reference)
      expect(references).toHaveLength(ACCOUNTS * EACH)
      expect(new Set(references).size).toBe(ACCOUNTS * EACH)
      await expectWhole(database)
      await expectSameMoney(accounts)
      for (const { merchant } of accounts)
        expect([...merchant.books.transactions.values()].filter(({ taken }) => taken.length > 1)).toEqual([])
    },
  }
}

const [PAYSTACK, FLUTTERWAVE, PAIR] = [useWorld("paystack"), useWorld("flutterwave"), useWorld("paystack")]

describe.concurrent("processes", () => {
  it.each([
    ["paystack", PAYSTACK],
    ["flutterwave", FLUTTERWAVE],
  ] as const)("that are killed: waiting work of %s is sent once, work in progress is verified", async (_, world) => {
    const { database, serve, dueAtStart, expectAllOnce } = world
    const accounts = await dueAtStart()
    const rail = world.rail()
    const [first, ...others] = accounts as [LiveAccount, ...Array<LiveAccount>]
    // For one account the rail has none of the calls in progress, for the others all.
    first.plan(
      "charge",
      Array.from({ length: 5 }, () => faults.silenceBefore("hang")),
    )
    rail.delayMs = 10_000
    const dying = await serve()
    await eventually(async () => (rail.underWay() === ACCOUNTS * 5 ? true : undefined))
    await dying.kill()
    rail.delayMs = 0
    const lost = rail.calls.of("charge").map(({ reference }) => reference)
    expect(lost).toHaveLength(ACCOUNTS * 5)
    const server = await serve()
    // Waiting calls are sent. Calls in progress are not sent, and must be verified.
    await eventually(async () => ((await pending(database)).length === lost.length ? true : undefined))
    await eventually(async () => ((await queued(database)) === 0 ? true : undefined))
    expect(rail.calls.of("verify")).toEqual([])
    expect((await pending(database)).map(({ state }) => state)).toEqual(lost.map(() => "pending.waiting"))
    expect(await server.stop()).toBe(0)
    await passAll(database, accounts, ASK_MS)
    const next = await serve()
    await eventually(async () => ((await pending(database)).length === 5 ? true : undefined))
    // Calls that the rail never received are verified three times more, and then given up.
    expect((await pending(database)).every(({ account_id }) => account_id === first.id)).toBe(true)
    expect(new Set(rail.calls.of("verify").map(({ reference }) => reference))).toEqual(new Set(lost))
    expect(await next.stop()).toBe(0)
    for (const { books } of others) expect(await books()).toMatchObject({ clearing: 2 * EACH * PRICE })
    expect(await first.books()).toMatchObject({ clearing: (2 * EACH - 5) * PRICE })
    await expectAllOnce(accounts)
  })

  it("in a pair send each once", async () => {
    const { database, serve, dueAtStart, expectAllOnce } = PAIR
    const accounts = await dueAtStart()
    const rail = PAIR.rail()
    rail.delayMs = 100
    const servers = await Promise.all([serve(), serve()])
    await eventually(async () => (rail.calls.of("charge").length >= ACCOUNTS * EACH ? true : undefined))
    await eventually(async () => ((await pending(database)).length === 0 ? true : undefined))
    rail.delayMs = 0
    expect(rail.calls.of("verify")).toEqual([])
    await Promise.all(servers.map((server: Server) => server.stop()))
    await expectAllOnce(accounts)
  })
})

const passAll = async (database: TestDatabase, accounts: ReadonlyArray<LiveAccount>, ms: number) => {
  for (const { id } of accounts) await database.run(() => rewind(id, ms))
}

const pending = (database: TestDatabase) =>
  database.run(
    (sql) => sql<{ account_id: string; state: string }>`SELECT account_id, state FROM charge WHERE status = 'pending'`,
  )

const queued = (database: TestDatabase): Promise<number> =>
  database.run((sql) => sql`SELECT 1 FROM rail_call`).then((rows) => rows.length)
