/** Tests charges with an unknown result: their verification schedule, and which answers count (decisions P9, P10). */
import { describe, expect, it } from "vitest"
import { type Fault, faults } from "../support/rails/fault.ts"
import { BOTH, DUE, type LiveAccount, useRails } from "../support/rails/live.ts"
import { data, eventually } from "../support/story.ts"

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

/** A call times out after a second. */
const { database, open } = useRails(() => ({ RAIL_TIMEOUT: "1" }))

/** The result is unknown after these, and the rail has the money. */
const TAKEN: Readonly<Record<string, Fault>> = {
  "no answer": faults.silenceAfter("hang"),
  "a broken connection": faults.silenceAfter("cut"),
  "a connection that breaks in the answer": faults.cutBody(),
  "HTTP 503": faults.unavailableAfter(),
  "a page with HTTP 500": faults.html500("after"),
  "a page with HTTP 200": faults.html200("after"),
  "half of the JSON": faults.truncatedJson(),
  "JSON that means nothing": faults.wrongTypes(),
}

/** Unknown after these too, and the rail received nothing. */
const NOT_RECEIVED: Readonly<Record<string, Fault>> = {
  "no answer": faults.silenceBefore("hang"),
  "a broken connection": faults.silenceBefore("cut"),
  "HTTP 503": faults.unavailableBefore(),
  "a page with HTTP 500": faults.html500(),
  "a page with HTTP 200": faults.html200(),
}

const PRICE = 500_000

/** Subscriptions that fall due together, each with one of these faults. Returns their charges after the calls. */
const renewWith = async (account: LiveAccount, planned: ReadonlyArray<Fault>): Promise<ReadonlyArray<string>> => {
  const subscriptions = await Promise.all(planned.map((_, index) => account.subscribe(PRICE + index)))
  for (const [index, fault] of planned.entries()) account.plan("charge", fault, PRICE + index)
  await account.pass(DUE)
  return Promise.all(
    subscriptions.map(async (subscription) => {
      const { id } = await account.latest(subscription)
      await eventually(async () => ((await account.see(id)).state === "pending.waiting" ? true : undefined))
      return id
    }),
  )
}

const askAfter = ({ ask_after_ms }: { readonly ask_after_ms: number | null }) => ask_after_ms

/** Makes time pass until the last of these charges is verified. Returns all of them as they are after that. */
const askAll = async (account: LiveAccount, ids: ReadonlyArray<string>) => {
  const before = await Promise.all(ids.map(account.see))
  const due = Math.max(...before.map(({ sent_at, ask_after_ms }) => sent_at + ask_after_ms!))
  await account.pass(Math.max(Math.ceil(due - Date.now()), 0))
  return Promise.all(
    before.map(({ id, asks }) =>
      eventually(async () => {
        const now = await account.see(id)
        return now.asks > asks && now.state !== "pending.asking" ? now : undefined
      }),
    ),
  )
}

const askedOf = (account: LiveAccount, charge: string): number =>
  account.rail.calls.of("verify", account.merchant.books.find(charge)?.reference ?? wireOf(account, charge)).length

/** The rail's reference of a charge that it never received. */
const wireOf = (account: LiveAccount, charge: string): string =>
  account.rail.calls.of("charge").find(({ reference }) => reference.slice(4) === charge.slice(4))!.reference

const sentOf = (account: LiveAccount, charge: string): number =>
  account.rail.calls.of("charge", wireOf(account, charge)).length

describe.concurrent.each(BOTH)("%s", (name) => {
  it("verifies 10 s after a call that ended without an answer, and settles by the rail's answer", async () => {
    const account = await open(name)
    const ids = await renewWith(account, Object.values(TAKEN))
    for (const id of ids) {
      expect(await account.see(id)).toMatchObject({ status: "pending", asks: 0, ask_after_ms: 10_000 })
      expect(data(await account.api.get(`/charges/${id}`))).toMatchObject({ status: "pending", failure_code: null })
      expect(askedOf(account, id)).toBe(0)
    }
    // The wait starts at the end of the call, after the timeout.
    const [hanging] = ids
    const sent = account.rail.calls.of("charge", wireOf(account, hanging!))[0]!
    expect((await account.see(hanging!)).sent_at - sent.at).toBeGreaterThan(500)
    const paid = ids.reduce((sum, _, index) => sum + PRICE + index, 0)
    expect(await account.books()).toEqual({ clearing: paid, deferred_revenue: -paid })
    await account.pass(10_000)
    for (const id of ids) expect(await account.settled(id)).toMatchObject({ status: "succeeded" })
    for (const id of ids) {
      expect(askedOf(account, id)).toBe(1)
      expect(sentOf(account, id)).toBe(1)
      expect(account.merchant.books.get(id).taken).toHaveLength(1)
      expect(await account.events(id)).toEqual(["charge.succeeded succeeded"])
    }
    expect(await account.books()).toEqual({ clearing: 2 * paid, deferred_revenue: -2 * paid })
    expect(await account.exceptions()).toEqual([])
  })

  it("verifies after 10 s, 1 min, 5 min, then hourly, and gives up charges that the rail never received", async () => {
    const account = await open(name)
    const ids = await renewWith(account, Object.values(NOT_RECEIVED))
    const seen: Array<ReadonlyArray<number | null>> = [(await Promise.all(ids.map(account.see))).map(askAfter)]
    // Three times unknown, but not yet for ten minutes: verified once more.
    for (let asks = 1; asks <= 3; asks++) {
      const after = await askAll(account, ids)
      for (const one of after) expect(one).toMatchObject({ state: "pending.waiting", asks, not_found: asks })
      seen.push(after.map(askAfter))
    }
    expect(seen).toEqual([10_000, MINUTE_MS, 5 * MINUTE_MS, HOUR_MS].map((ms) => ids.map(() => ms)))
    for (const one of await askAll(account, ids))
      expect(one).toMatchObject({ status: "failed", failure_code: "processor_error", asks: 4 })
    for (const id of ids) {
      expect(await account.settled(id)).toMatchObject({ status: "failed", will_retry: true })
      expect(sentOf(account, id)).toBe(1)
      expect(askedOf(account, id)).toBe(4)
    }
    expect(account.merchant.books.totalTaken()).toBe((await account.books()).clearing)
  })

  it("continues to verify hourly while the rail has no result", async () => {
    const account = await open(name)
    const [id] = (await renewWith(account, [faults.pendingUntil(6)])) as [string]
    for (let asks = 1; asks <= 5; asks++)
      expect(await account.ask(id)).toMatchObject({
        asks,
        ask_after_ms: [0, MINUTE_MS, 5 * MINUTE_MS][asks] ?? (asks - 2) * HOUR_MS,
      })
    expect(await account.ask(id)).toMatchObject({ status: "succeeded", asks: 6 })
    expect(sentOf(account, id)).toBe(1)
  })

  it("fails a pending charge if the verification returns a failure", async () => {
    const account = await open(name)
    const subscription = await account.subscribe(PRICE)
    account.plan("charge", faults.lateFailure(2, "Insufficient Funds"))
    await account.pass(DUE)
    const { id } = await account.latest(subscription)
    await eventually(async () => ((await account.see(id)).state === "pending.waiting" ? true : undefined))
    expect(await account.ask(id)).toMatchObject({ status: "pending" })
    expect(await account.ask(id)).toMatchObject({ status: "failed", failure_code: "insufficient_funds" })
    expect(await account.events(id)).toEqual(["charge.failed failed", "charge.retry_scheduled failed"])
    expect(data(await account.api.get(`/subscriptions/${subscription}`)).status).toBe("past_due")
    expect(await account.books()).toEqual({ clearing: PRICE, receivable: PRICE, deferred_revenue: -2 * PRICE })
  })

  it("treats a refused duplicate as a question: the first attempt counts", async () => {
    const account = await open(name)
    account.plan("charge", faults.silenceAfter())
    const { id } = await account.charge(PRICE)
    expect(await account.see(id)).toMatchObject({ state: "pending.waiting", ask_after_ms: 10_000 })
    // As after a restore of our database to a moment before the call.
    await database.run(
      (sql) => sql`
        INSERT INTO rail_call (account_id, livemode, id, rail, kind, rank) VALUES (${account.id}, true, ${id}, ${name}, 'charge', 0)`,
    )
    const left = () => database.run((sql) => sql`SELECT 1 FROM rail_call WHERE account_id = ${account.id}`)
    await eventually(async () => ((await left()).length === 0 ? true : undefined))
    expect(sentOf(account, id)).toBe(2)
    expect(await account.see(id)).toMatchObject({ state: "pending.waiting", ask_after_ms: 10_000 })
    expect(await account.ask(id)).toMatchObject({ status: "succeeded" })
    expect(account.merchant.books.get(id).taken).toEqual([PRICE])
    expect(await account.exceptions()).toEqual([])
  })

  it("verifies a rate-limited charge, and fails it as rate limited", async () => {
    const account = await open(name)
    const subscription = await account.subscribe(PRICE)
    account.plan("charge", faults.tooMany())
    await account.pass(DUE)
    const { id } = await account.latest(subscription)
    await eventually(async () => ((await account.see(id)).state === "pending.waiting" ? true : undefined))
    expect(await account.ask(id)).toMatchObject({ status: "failed", failure_code: "rail_rate_limited" })
    expect(await account.settled(id)).toMatchObject({ will_retry: true })
    expect(sentOf(account, id)).toBe(1)
  })
})
