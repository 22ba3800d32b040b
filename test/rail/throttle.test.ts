/** Tests limits of calls to a rail that throttles or cannot be reached: no other account waits (decisions P9, P11). */
import { describe, expect, it } from "vitest"
import type { OutsideRail } from "../../src/rails/rail/Rail.ts"
import { createApi } from "../support/api.ts"
import { type Fault, faults } from "../support/rails/fault.ts"
import { BOTH, DUE, type LiveAccount, useRails } from "../support/rails/live.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"

const { database, server, keys, open, railOf } = useRails(() => ({ RAIL_TIMEOUT: "20" }))

const PRICE = 500_000
const HOUR_MS = 3_600_000

/** Subscriptions of one buyer that fall due together, and the charges of their renewals after the commit. */
const renewAll = async (
  account: LiveAccount,
  count: number,
  prepare: () => void = () => {},
): Promise<ReadonlyArray<string>> => {
  const buyer = await account.buyer()
  const subscriptions = await Promise.all(Array.from({ length: count }, () => account.subscribe(PRICE, buyer)))
  prepare()
  await account.pass(DUE)
  return Promise.all(subscriptions.map(async (subscription) => (await account.latest(subscription)).id))
}

const callsOf = (account: LiveAccount, kind: "charge" | "verify") =>
  account.rail.calls.of(kind).filter(({ key }) => key === account.merchant.secretKey)

const throttleOf = async (account: LiveAccount): Promise<{ readonly ms: number } | undefined> => {
  const [row] = await database.run(
    (sql) => sql<{ ms: number | null }>`
      SELECT (extract(epoch FROM next_call_at - clock_timestamp()) * 1000)::float8 AS ms FROM rail_throttle WHERE account_id = ${account.id}`,
  )
  return row === undefined || row.ms === null ? undefined : { ms: row.ms }
}

const allSettled = async (account: LiveAccount, ids: ReadonlyArray<string>, status: string) => {
  for (const id of ids) expect(await account.settled(id)).toMatchObject({ status })
}

const bounded = async (name: OutsideRail) => {
  const rail = railOf(name)
  const accounts = await Promise.all(Array.from({ length: 6 }, () => open(name)))
  const buyers = await Promise.all(accounts.map((account) => account.buyer()))
  rail.delayMs = 1_500
  const posted = accounts.map((account, index) =>
    Promise.all(Array.from({ length: 10 }, () => account.charge(PRICE, buyers[index]))),
  )
  await eventually(async () => (rail.underWay() === 20 ? true : undefined))
  for (const { merchant } of accounts) expect(rail.underWay(merchant.secretKey)).toBeLessThanOrEqual(5)
  rail.delayMs = 0
  for (const [index, charges] of (await Promise.all(posted)).entries())
    await allSettled(
      accounts[index]!,
      charges.map(({ id }) => id),
      "succeeded",
    )
  expect(rail.calls.most()).toBe(20)
  for (const { merchant } of accounts) {
    expect(rail.calls.most(merchant.secretKey)).toBeLessThanOrEqual(5)
    expect(merchant.books.totalTaken()).toBe(10 * PRICE)
  }
  // A single account gets no more, either.
  const [alone] = accounts as [LiveAccount]
  rail.delayMs = 700
  const more = Array.from({ length: 8 }, () => alone.charge(PRICE, buyers[0]))
  await eventually(async () => (rail.underWay(alone.merchant.secretKey) === 5 ? true : undefined))
  rail.delayMs = 0
  await Promise.all(more)
  expect(rail.calls.most(alone.merchant.secretKey)).toBe(5)
  expect(accounts.flatMap((account) => callsOf(account, "charge")).filter(({ attempt }) => attempt > 1)).toEqual([])
}

it("has at most 20 calls in progress at a rail, 5 of them for one account", async () => {
  await Promise.all(BOTH.map(bounded))
})

describe.each(BOTH)("%s", (name) => {
  it("calls a throttling rail again at the time that it names, for that one account", async () => {
    const [account, other] = [await open(name), await open(name)]
    const ids = await renewAll(account, 12, () => account.plan("charge", Array<Fault>(5).fill(faults.tooMany(3_600))))
    const throttled = await eventually(() => throttleOf(account))
    expect(throttled.ms).toBeGreaterThan(HOUR_MS / 2)
    expect(throttled.ms).toBeLessThanOrEqual(HOUR_MS)
    await eventually(async () => (account.rail.underWay(account.merchant.secretKey) === 0 ? true : undefined))
    const called = callsOf(account, "charge").length
    // No other account waits.
    expect(await other.charge(PRICE)).toMatchObject({ status: "succeeded" })
    // The calls in progress at the first answer. The rest waits, not sent.
    expect(callsOf(account, "charge").length).toBe(called)
    expect(called - 12).toBeLessThanOrEqual(5)
    // Each answer is written, and so is its effect on the rail.
    const waiting = await eventually(async () => {
      const seen = await Promise.all(ids.map(account.see))
      return seen.filter(({ state }) => state !== "pending.sending").length === called - 12 ? seen : undefined
    })
    expect(waiting.filter(({ state }) => state === "pending.sending").length).toBeGreaterThanOrEqual(7)
    // From now on it accepts all calls, however few were in progress together.
    account.rail.heal()
    await account.pass(HOUR_MS)
    const settled = await Promise.all(ids.map(account.settled))
    const refused = settled.filter(({ status }) => status === "failed")
    expect(refused.map(({ failure_code }) => failure_code)).toEqual(refused.map(() => "rail_rate_limited"))
    expect(refused.length).toBe(called - 12)
    expect(callsOf(account, "charge").filter(({ attempt }) => attempt > 1)).toEqual([])
    expect(await throttleOf(account)).toBeUndefined()
  })

  it("gets waiting charges when it is reachable again, each once; the other rail and the simulator do not wait", async () => {
    const other = name === "paystack" ? "flutterwave" : "paystack"
    const [account, elsewhere] = [await open(name), await open(other)]
    const rail = railOf(name)
    const ids = await renewAll(account, 12, () => {})
    await allSettled(account, ids, "succeeded")
    await rail.offline()
    await account.pass(DUE)
    await eventually(async () => ((await throttleOf(account)) === undefined ? undefined : true))
    expect(await elsewhere.charge(PRICE)).toMatchObject({ status: "succeeded" })
    const sandbox = createApi(server().origin, keys().sk_test)
    const customer = await createCustomer(sandbox)
    const body = { customer, plan: await createPlan(sandbox), payment_method: "pm_test_success" }
    expect(data(await sandbox.post("/subscriptions", body), 201).status).toBe("active")
    // After a minute: nothing was sent, nothing failed.
    await account.pass(60_000)
    const newest = await database.run(
      (sql) => sql<{ id: string; state: string }>`
        SELECT id, state FROM charge WHERE account_id = ${account.id} AND status = 'pending' ORDER BY id`,
    )
    expect(newest.map(({ state }) => state)).toEqual(ids.map(() => "pending.sending"))
    const before = callsOf(account, "charge").length
    await rail.online()
    await allSettled(
      account,
      newest.map(({ id }) => id),
      "succeeded",
    )
    expect(callsOf(account, "charge").length - before).toBe(12)
    expect(callsOf(account, "charge").filter(({ attempt }) => attempt > 1)).toEqual([])
    expect(await throttleOf(account)).toBeUndefined()
  })
})

describe.concurrent("a rail", () => {
  it("that is slow: POST /charges returns pending within 5 s, and the charge settles later", async () => {
    const account = await open("flutterwave")
    const buyer = await account.buyer()
    account.plan("charge", faults.delay(5_500))
    const before = performance.now()
    const { id, status } = await account.charge(PRICE, buyer)
    // The rest is the machine's own delay.
    expect(performance.now() - before).toBeLessThan(6_500)
    expect(status).toBe("pending")
    expect(await account.settled(id)).toMatchObject({ status: "succeeded" })
    expect(callsOf(account, "verify")).toEqual([])
  })

  it("without a retry time is called once a second, until it answers", async () => {
    const account = await open("paystack")
    await renewAll(account, 9, () => account.plan("charge", Array<Fault>(8).fill(faults.tooMany())))
    const refused = () => callsOf(account, "charge").filter(({ fault }) => fault !== undefined)
    await eventually(async () => (refused().length >= 8 ? true : undefined))
    // After those that were in progress together.
    const single = refused().slice(5)
    const [first, last] = [single[0]!, single.at(-1)!]
    expect(last.at - first.at).toBeGreaterThan((single.length - 1) * 1_000 - 500)
    await eventually(async () => (callsOf(account, "charge").length === 18 ? true : undefined))
    await eventually(async () => ((await throttleOf(account)) === undefined ? true : undefined))
  })

  it("is called once a second after a minute without answers", async () => {
    const account = await open("paystack")
    const buyer = await account.buyer()
    account.plan("charge", Array<Fault>(7).fill(faults.silenceBefore("cut")))
    // A few broken calls have no effect yet.
    await Promise.all(Array.from({ length: 3 }, () => account.charge(PRICE, buyer)))
    expect(await throttleOf(account)).toBeUndefined()
    await database.run(
      (sql) =>
        sql`UPDATE rail_throttle SET failing_since = failing_since - interval '1 minute' WHERE account_id = ${account.id}`,
    )
    await account.charge(PRICE, buyer)
    expect(await throttleOf(account)).toBeDefined()
    const before = callsOf(account, "charge").length
    await Promise.all(Array.from({ length: 3 }, () => account.charge(PRICE, buyer)))
    const single = callsOf(account, "charge").slice(before)
    expect(single).toHaveLength(3)
    expect(single.at(-1)!.at - single[0]!.at).toBeGreaterThan(1_500)
    expect(await account.charge(PRICE, buyer)).toMatchObject({ status: "succeeded" })
    expect(await throttleOf(account)).toBeUndefined()
  })
})

it("an answer is written only after the rail's reachability is, and no other account waits", async () => {
  const [account, other] = [await open("paystack"), await open("paystack")]
  const [buyer, others] = [await account.buyer(), await other.buyer()]
  const statement = (text: string) => database.run((sql) => sql.unsafe(text).unprepared)
  await statement(
    "CREATE FUNCTION refuse_reach() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused by the test'; END $$",
  )
  await statement(
    `CREATE TRIGGER refuse_reach BEFORE INSERT ON rail_throttle FOR EACH ROW WHEN (new.account_id = '${account.id}') EXECUTE FUNCTION refuse_reach()`,
  )
  for (const { plan } of [account, other]) plan("charge", faults.tooMany(3_600))
  const answered = async (charge: { readonly id: string }, owner: LiveAccount) => {
    const seen = await eventually(async () => {
      const { state } = await owner.see(charge.id)
      return state === "pending.waiting" ? [state, await throttleOf(owner)] : undefined
    })
    expect(seen[1]).toMatchObject({ ms: expect.closeTo(HOUR_MS, -6) })
  }
  const posted = account.charge(PRICE, buyer)
  await eventually(async () => (callsOf(account, "charge").length === 1 ? true : undefined))
  await answered(await other.charge(PRICE, others), other)
  // The request returns the current state after the maximum wait.
  const charge = await posted
  expect((await account.see(charge.id)).state).toBe("pending.sending")
  await statement("DROP TRIGGER refuse_reach ON rail_throttle")
  await answered(charge, account)
  expect([callsOf(account, "charge").length, callsOf(other, "charge").length]).toEqual([1, 1])
})

it("an answer that cannot be written delays no others, and is written when possible", async () => {
  const account = await open("paystack")
  const buyer = await account.buyer()
  const refused = 666_001
  const statement = (text: string) => database.run((sql) => sql.unsafe(text).unprepared)
  await statement(
    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused by the test'; END $$",
  )
  await statement(
    `CREATE TRIGGER refuse BEFORE UPDATE ON charge FOR EACH ROW WHEN (old.amount_kobo = ${refused}) EXECUTE FUNCTION refuse()`,
  )
  account.plan("charge", faults.silenceAfter("cut"), refused)
  const posted = account.charge(refused, buyer)
  await eventually(async () => (server().output().includes("results of a rail cannot be written") ? true : undefined))
  expect(await account.charge(PRICE, buyer)).toMatchObject({ status: "succeeded" })
  await statement("DROP TRIGGER refuse ON charge")
  const { id, status } = await posted
  expect(status).toBe("pending")
  await eventually(async () => ((await account.see(id)).state === "pending.waiting" ? true : undefined))
  expect(await account.ask(id)).toMatchObject({ status: "succeeded" })
  expect(callsOf(account, "charge")).toHaveLength(2)
})
