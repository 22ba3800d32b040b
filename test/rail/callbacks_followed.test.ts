/** Tests callbacks' effects, in any order and number: one settlement, one set of events and books (decision P13). */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { switchFence } from "../../src/cells/fence.ts"
import { movedTables } from "../../src/cells/tables.ts"
import { lockUntilReleased } from "../support/hold.ts"
import { post } from "../support/rails/callbacks.ts"
import { faults } from "../support/rails/fault.ts"
import { BOTH, DUE, type LiveAccount, useRails } from "../support/rails/live.ts"
import { eventually } from "../support/story.ts"

const { database, open, callbackUrl } = useRails()

const PRICE = 500_000
/** No question settles it: the rail reports it when the test does. */
const NEVER = Number.POSITIVE_INFINITY

/** Waits until all callbacks are processed. */
const callbacksProcessed = (account: LiveAccount) =>
  eventually(async () => {
    const left = await database.run(
      (sql) => sql`
        SELECT 1 FROM rail_callback WHERE account_id = ${account.id} UNION ALL SELECT 1 FROM rail_call WHERE account_id = ${account.id}`,
    )
    return left.length === 0 ? true : undefined
  })

const asksAbout = (account: LiveAccount, charge: string): number =>
  account.rail.calls.of("verify", account.merchant.books.get(charge).reference).length

const callsOfCharges = (account: LiveAccount): number =>
  account.rail.calls.of("charge").filter(({ key }) => key === account.merchant.secretKey).length

/** As a move does just before it hands over its account, or is aborted. */
const fence = ({ id }: LiveAccount, isFenced: boolean) =>
  database.run((sql) =>
    Effect.gen(function* () {
      yield* isFenced
        ? sql`INSERT INTO account_move (account_id, move_id, state, cell, fenced_at) VALUES (${id}, 'move_1', 'fenced', '7Z', now())`
        : sql`DELETE FROM account_move WHERE account_id = ${id}`
      yield* switchFence(yield* movedTables)
    }),
  )

/** The same order in each run. */
const shuffled = <T>(values: ReadonlyArray<T>): ReadonlyArray<T> =>
  values
    .map((value, index) => ({ value, key: (index * 7919) % 1009 }))
    .toSorted((a, b) => a.key - b.key)
    .map(({ value }) => value)

describe.each(BOTH)("%s", (name) => {
  it.each(["before", "after"] as const)(
    "settles once by a callback that comes %s the answer, doubled",
    async (when) => {
      const account = await open(name)
      account.merchant.callbackUrl = callbackUrl(name, account)
      account.rail.callbacks.sending = { when, times: 2 }
      const subscription = await account.subscribe(PRICE)
      await account.pass(DUE)
      const { id } = await account.settled((await account.latest(subscription)).id)
      await account.rail.callbacks.idle()
      await callbacksProcessed(account)
      account.rail.callbacks.sending = { when: "after" }
      expect(await account.events(id)).toEqual(["charge.succeeded succeeded"])
      expect((await account.events(subscription)).filter((event) => event.startsWith("subscription."))).toEqual([
        "subscription.created active",
        "subscription.renewed active",
      ])
      expect(account.rail.callbacks.kept).toEqual([])
      expect(account.rail.calls.of("charge", account.merchant.books.get(id).reference)).toHaveLength(1)
      expect(account.merchant.books.get(id).taken).toEqual([PRICE])
      expect(await account.books()).toEqual({ clearing: 2 * PRICE, deferred_revenue: -2 * PRICE })
      expect(await account.exceptions()).toEqual([])
    },
  )

  it("settles a pending charge by a callback, without waiting for the next question", async () => {
    const account = await open(name)
    account.merchant.callbackUrl = callbackUrl(name, account)
    account.plan("charge", faults.pendingUntil(NEVER))
    const { id, status } = await account.charge(PRICE)
    expect(status).toBe("pending")
    expect(asksAbout(account, id)).toBe(0)
    expect(account.rail.settle(id)).toBe(true)
    expect(await account.settled(id)).toMatchObject({ status: "succeeded" })
    expect(asksAbout(account, id)).toBe(1)
    expect(await account.see(id)).toMatchObject({ ask_after_ms: null })
  })

  it("settles unlocked charges by callbacks, beside a locked one of another account", async () => {
    const [mine, other] = [await open(name), await open(name)]
    const pending = async (account: LiveAccount) => {
      account.merchant.callbackUrl = callbackUrl(name, account)
      account.plan("charge", faults.pendingUntil(NEVER))
      return (await account.charge(PRICE)).id
    }
    const [first, second] = [await pending(mine), await pending(other)]
    const locked = await lockUntilReleased(database, (sql) => sql`SELECT 1 FROM charge WHERE id = ${first} FOR UPDATE`)
    expect([mine.rail.settle(first), other.rail.settle(second)]).toEqual([true, true])
    expect(await other.settled(second)).toMatchObject({ status: "succeeded" })
    await locked.release()
    expect(await mine.settled(first)).toMatchObject({ status: "succeeded" })
    for (const account of [mine, other]) await callbacksProcessed(account)
  })

  it("verifies after a callback during the call, and believes the later answer", async () => {
    const account = await open(name)
    account.merchant.callbackUrl = callbackUrl(name, account)
    account.rail.callbacks.sending = { when: "before" }
    // The callback arrives, the answer is lost.
    account.plan("charge", faults.silenceAfter("cut"))
    const { id } = await account.charge(PRICE)
    account.rail.callbacks.sending = { when: "after" }
    expect(await account.settled(id)).toMatchObject({ status: "succeeded" })
    await callbacksProcessed(account)
    expect(account.rail.calls.of("charge", account.merchant.books.get(id).reference)).toHaveLength(1)
    expect(await account.events(id)).toEqual(["charge.succeeded succeeded"])
  })

  it("ignores a callback's amounts and statuses", async () => {
    const account = await open(name)
    const url = callbackUrl(name, account)
    const { merchant, rail } = account
    account.plan("charge", faults.pendingUntil(NEVER))
    const { id } = await account.charge(PRICE)
    const good = name === "paystack" ? { status: "success" } : { status: "successful" }
    const lies = [good, { ...good, amount: 1 }, { status: "failed" }, { ...good, amount: 900_000_000, currency: "USD" }]
    for (const data of lies) {
      expect(await post(url, rail.callbackFor(id, { merchant, data }))).toBe(200)
      await callbacksProcessed(account)
      expect(await account.see(id)).toMatchObject({ status: "pending" })
    }
    expect(asksAbout(account, id)).toBeGreaterThan(0)
    expect(await account.books()).toEqual({})
    expect(await account.exceptions()).toEqual([])
    expect(await account.events(id)).toEqual([])
    rail.settle(id)
    expect(await account.ask(id)).toMatchObject({ status: "succeeded" })
  })

  it("continues to verify within the hour, however many callbacks came meanwhile", async () => {
    const account = await open(name)
    const url = callbackUrl(name, account)
    account.plan("charge", faults.pendingUntil(NEVER))
    const { id } = await account.charge(PRICE)
    for (let n = 0; n < 6; n++) {
      await post(url, account.rail.callbackFor(id, { merchant: account.merchant }))
      await callbacksProcessed(account)
    }
    const { asks, ask_after_ms, sent_at } = await account.see(id)
    expect(asks).toBeGreaterThan(3)
    expect(sent_at + ask_after_ms! - Date.now()).toBeLessThanOrEqual(3_600_000)
    account.rail.settle(id)
    expect(await account.ask(id)).toMatchObject({ status: "succeeded" })
  })

  it("ignores references that are unknown or belong to another account", async () => {
    const [account, other] = [await open(name), await open(name)]
    account.plan("charge", faults.pendingUntil(NEVER))
    const { id } = await account.charge(PRICE)
    account.rail.settle(id)
    const { merchant } = other
    const url = callbackUrl(name, other)
    for (const reference of [id, "chg_00000000000000000000000000", "of another system 4711"])
      expect(await post(url, other.rail.callbackFor(reference, { merchant }))).toBe(200)
    await callbacksProcessed(other)
    expect(await account.see(id)).toMatchObject({ status: "pending", asks: 0 })
    expect(account.rail.calls.log.filter(({ key }) => key === merchant.secretKey)).toEqual([])
    // Signed by the other merchant, it is not even recorded for the reference's account.
    expect(await post(callbackUrl(name, account), other.rail.callbackFor(id, { merchant }))).toBe(401)
    expect(await account.ask(id)).toMatchObject({ status: "succeeded" })
  })

  it("accepts a burst of 500, doubled and in any order, beside the answers", async () => {
    const account = await open(name)
    const url = callbackUrl(name, account)
    const { merchant, rail } = account
    const amounts = Array.from({ length: 20 }, (_, index) => PRICE + index)
    const buyer = await account.buyer()
    // Half of them settle immediately. Half are pending until the rail settles them in the middle of the burst.
    for (const amount of amounts) if (amount % 2 === 0) account.plan("charge", faults.pendingUntil(NEVER), amount)
    const ids = (await Promise.all(amounts.map((amount) => account.charge(amount, buyer)))).map(
      ({ id }) => id as string,
    )
    const references = [...ids, ...Array.from({ length: 5 }, (_, n) => `chg_unknown${n}`)]
    const burst = shuffled(Array.from({ length: 500 }, (_, n) => references[n % references.length]!))
    const halfway = Math.floor(burst.length / 2)
    const posted = burst.map((reference, index) => {
      if (index === halfway) merchant.books.settleAll()
      return post(url, rail.callbackFor(reference, { merchant }))
    })
    expect(new Set(await Promise.all(posted))).toEqual(new Set([200]))
    for (const id of ids) expect(await account.settled(id)).toMatchObject({ status: "succeeded" })
    await callbacksProcessed(account)
    for (const id of ids) {
      expect(await account.events(id)).toEqual(["charge.succeeded succeeded"])
      expect(merchant.books.get(id).taken).toHaveLength(1)
    }
    const paid = amounts.reduce((sum, amount) => sum + amount, 0)
    expect(await account.books()).toEqual({ clearing: paid, one_off_revenue: -paid })
    expect(await account.exceptions()).toEqual([])
  })
})

describe("a fenced account", () => {
  it("delays no others, and is processed again after the fence", async () => {
    const name = "paystack"
    const [mine, other] = [await open(name), await open(name)]
    for (const account of [mine, other]) account.plan("charge", faults.pendingUntil(NEVER))
    const [first, second] = [await mine.charge(PRICE), await other.charge(PRICE)]
    // The rail's answer to another comes after the account is fenced.
    mine.plan("charge", faults.delay(1_500))
    const late = mine.charge(PRICE)
    await eventually(async () => (callsOfCharges(mine) === 2 ? true : undefined))
    await fence(mine, true)
    const noted = async (account: LiveAccount, charge: string) => {
      const callback = account.rail.callbackFor(charge, { merchant: account.merchant })
      return post(callbackUrl(name, account), callback)
    }
    const both = await Promise.all(
      Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? noted(mine, first.id) : noted(other, second.id))),
    )
    expect(both.filter((_, n) => n % 2 === 1)).toEqual(Array.from({ length: 10 }, () => 200))
    expect(new Set(both.filter((_, n) => n % 2 === 0))).toEqual(new Set([503]))
    expect(other.rail.settle(second.id)).toBe(true)
    expect(await noted(other, second.id)).toBe(200)
    expect(await other.settled(second.id)).toMatchObject({ status: "succeeded" })
    const { id } = await late
    await fence(mine, false)
    expect(await mine.settled(id)).toMatchObject({ status: "succeeded" })
    expect(callsOfCharges(mine)).toBe(2)
  })
})
