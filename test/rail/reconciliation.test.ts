/** Tests rails' reports that do not match: they settle nothing, or owe money back, listed once (decisions P10, F2). */
import { describe, expect, it } from "vitest"
import { post } from "../support/rails/callbacks.ts"
import { type Fault, faults } from "../support/rails/fault.ts"
import { BOTH, DUE, type LiveAccount, useRails } from "../support/rails/live.ts"
import { data, eventually } from "../support/story.ts"

const { database, open, callbackUrl } = useRails()

const PRICE = 500_000
const HOUR_MS = 3_600_000

/** The rail calls back about a charge, and its verification is done. */
const callBack = async (account: LiveAccount, url: string, charge: string): Promise<void> => {
  const { reference } = account.merchant.books.get(charge)
  const before = account.rail.calls.of("verify", reference).length
  expect(await post(url, account.rail.callbackFor(charge, { merchant: account.merchant }))).toBe(200)
  await eventually(async () => (account.rail.calls.of("verify", reference).length > before ? true : undefined))
  await eventually(async () => ((await underWay(account)) === 0 ? true : undefined))
}

const underWay = (account: LiveAccount) =>
  database.run((sql) => sql`SELECT 1 FROM rail_call WHERE account_id = ${account.id}`).then((rows) => rows.length)

/** All callbacks are processed. */
const callbacksProcessed = (account: LiveAccount) =>
  eventually(async () => {
    const noted = await database.run((sql) => sql`SELECT 1 FROM rail_callback WHERE account_id = ${account.id}`)
    return noted.length === 0 && (await underWay(account)) === 0 ? true : undefined
  })

/** The difference, the rail's correction, and the listed exceptions (by kind and amount). */
const DIFFERING: ReadonlyArray<{
  readonly what: string
  readonly fault: Fault
  readonly kind: string
  readonly kobo: number | null
  readonly mend: (account: LiveAccount, charge: string) => void
}> = [
  {
    what: "a lower amount",
    fault: faults.wrongAmount(PRICE - 1),
    kind: "amount_differs",
    kobo: PRICE - 1,
    mend: ({ merchant }, charge) => {
      const transaction = merchant.books.get(charge)
      transaction.taken.splice(0, 1, PRICE)
      transaction.amountKobo = PRICE
    },
  },
  {
    what: "an invalid amount, half a kobo",
    fault: faults.wrongAmount(PRICE - 0.5),
    kind: "amount_differs",
    kobo: null,
    mend: ({ merchant }, charge) => {
      const transaction = merchant.books.get(charge)
      transaction.taken.splice(0, 1, PRICE)
      transaction.amountKobo = PRICE
    },
  },
  {
    what: "another currency",
    fault: faults.wrongCurrency(),
    kind: "currency_differs",
    kobo: PRICE,
    mend: ({ merchant }, charge) => {
      merchant.books.get(charge).currency = "NGN"
    },
  },
  {
    what: "another reference",
    fault: faults.wrongReference(),
    kind: "reference_differs",
    kobo: PRICE,
    mend: () => {},
  },
]

describe.concurrent.each(BOTH)("%s", (name) => {
  it.each(DIFFERING)(
    "books nothing of $what, and settles after the rail corrects it",
    async ({ fault, kind, kobo, mend }) => {
      const account = await open(name)
      account.plan("charge", fault)
      // Asked again, it gives the same answer, unless only the answer was wrong.
      if (kind === "reference_differs") account.plan("verify", fault)
      const { id, status } = await account.charge(PRICE)
      expect(status).toBe("pending")
      expect(await account.ask(id)).toMatchObject({ status: "pending", asks: 1 })
      expect(await account.books()).toEqual({})
      expect(await account.exceptions()).toEqual([[kind, id, kobo]])
      const attentionEvents = kind === "reference_differs" ? [] : ["charge.attention_required pending"]
      expect(await account.events(id)).toEqual(attentionEvents)
      const currency = kind === "currency_differs" ? "USD" : "NGN"
      const attention = { kind, expected_amount: PRICE, received_amount: kobo, currency }
      expect(data(await account.api.get(`/charges/${id}`)).attention).toEqual(
        attentionEvents.length === 0 ? null : attention,
      )
      mend(account, id)
      expect(await account.ask(id)).toMatchObject({ status: "succeeded", asks: 2 })
      expect(await account.books()).toEqual({ clearing: PRICE, one_off_revenue: -PRICE })
      expect(await account.events(id)).toEqual([...attentionEvents, "charge.succeeded succeeded"])
      expect(data(await account.api.get(`/charges/${id}`)).attention).toBeNull()
      expect(await account.exceptions()).toEqual([[kind, id, kobo]])
    },
  )

  it("reports again if another amount is received, and not if it is the same", async () => {
    const account = await open(name, { compared: false })
    account.plan("charge", faults.wrongAmount(PRICE - 200))
    const { id } = await account.charge(PRICE)
    await account.ask(id)
    const transaction = account.merchant.books.get(id)
    transaction.taken.push(100)
    transaction.amountKobo += 100
    await account.ask(id)
    const received = (await account.api.all("/events"))
      .filter(({ type }) => type === "charge.attention_required")
      .map(({ data: { object, previous_attributes } }) => [
        object.attention.received_amount,
        previous_attributes.attention?.received_amount ?? null,
      ])
    expect(received).toEqual([
      [PRICE - 100, PRICE - 200],
      [PRICE - 200, null],
    ])
  })

  it.each([
    { what: "more than was asked for", fault: faults.wrongAmount(PRICE + 777), excess: 777 },
    { what: "the same twice", fault: faults.twice(), excess: PRICE },
  ])("settles $what, and owes the excess back, once", async ({ fault, excess }) => {
    const account = await open(name)
    account.plan("charge", fault)
    const { id, status } = await account.charge(PRICE)
    expect(status).toBe("succeeded")
    const books = { clearing: PRICE + excess, one_off_revenue: -PRICE, refunds_payable: -excess }
    expect(await account.books()).toEqual(books)
    // A callback and a verification change nothing.
    const url = callbackUrl(name, account)
    const callback = account.rail.callbackFor(id, { merchant: account.merchant })
    expect(await Promise.all([post(url, callback), post(url, callback)])).toEqual([200, 200])
    await callbacksProcessed(account)
    expect(await account.books()).toEqual(books)
    expect(await account.exceptions()).toEqual([["amount_exceeds", id, PRICE + excess]])
    expect(await account.events(id)).toEqual(["charge.succeeded succeeded"])
  })

  it("lists once a reversal by the rail after the payment, and books nothing of it", async () => {
    const account = await open(name)
    const url = callbackUrl(name, account)
    const { merchant, rail } = account
    const subscription = await account.subscribe(PRICE)
    const { id } = await account.latest(subscription)
    const transaction = merchant.books.get(id)
    const asked = () => rail.calls.of("verify", transaction.reference).length
    const callBackWith = async (data: object) => {
      expect(await post(url, rail.callbackFor(id, { merchant, data: { ...data } }))).toBe(200)
      await callbacksProcessed(account)
    }
    // A known success is not verified. A denied one is, and a denial alone changes nothing.
    await callBackWith({})
    expect(asked()).toBe(0)
    await callBackWith({ status: "failed" })
    expect(asked()).toBe(1)
    expect(await account.exceptions()).toEqual([])

    merchant.books.apply(transaction, { kind: "decline", words: "Reversed by the bank" })
    for (let times = 0; times < 3; times++) await callBackWith({ status: "failed" })
    expect(asked()).toBe(2)
    expect(await account.exceptions()).toEqual([["failed_after_success", id, null]])
    expect(data(await account.api.get(`/charges/${id}`))).toMatchObject({ status: "succeeded", failure_code: null })
    expect(data(await account.api.get(`/subscriptions/${subscription}`)).status).toBe("active")
    expect(await account.events(id)).toEqual(["charge.succeeded succeeded"])
    expect(await account.books()).toEqual({ clearing: PRICE, deferred_revenue: -PRICE })
  })

  it("verifies a denied one an hour later if the rail does not answer", async () => {
    const account = await open(name)
    const { id } = await account.charge(PRICE)
    account.plan("verify", faults.unavailableBefore())
    const { merchant } = account
    merchant.books.apply(merchant.books.get(id), { kind: "decline", words: "Reversed by the bank" })
    const callback = account.rail.callbackFor(id, { merchant, data: { status: "failed" } })
    expect(await post(callbackUrl(name, account), callback)).toBe(200)
    const waits = () =>
      database.run((sql) => sql`SELECT 1 FROM rail_call WHERE id = ${id} AND queued_at > now() + interval '50 minutes'`)
    await eventually(async () => ((await waits()).length === 1 ? true : undefined))
    expect(await account.exceptions()).toEqual([])
    await account.pass(HOUR_MS)
    await callbacksProcessed(account)
    expect(await account.exceptions()).toEqual([["failed_after_success", id, null]])
  })

  it("owes back a payment after a failure, once, however often it is reported", async () => {
    const account = await open(name)
    account.plan("charge", faults.lateSuccess(1, "Insufficient Funds"))
    const { id } = await account.charge(PRICE)
    expect(await account.books()).toEqual({})
    for (let times = 0; times < 3; times++) await callBack(account, callbackUrl(name, account), id)
    expect(data(await account.api.get(`/charges/${id}`))).toMatchObject({
      status: "failed",
      failure_code: "insufficient_funds",
      paid_at: null,
    })
    expect(await account.books()).toEqual({ clearing: PRICE, refunds_payable: -PRICE })
    expect(await account.exceptions()).toEqual([["succeeded_after_failure", id, null]])
    expect(await account.events(id)).toEqual(["charge.failed failed"])
    expect(account.merchant.books.get(id).taken).toEqual([PRICE])
  })

  it("owes back a second success of one bill", async () => {
    const account = await open(name)
    const subscription = await account.subscribe(PRICE)
    account.plan("charge", faults.lateSuccess(1, "Do Not Honour"))
    await account.pass(DUE)
    const first = await account.settled((await account.latest(subscription)).id)
    await account.pass(Date.parse(first.next_retry_at) - Date.now())
    const second = await account.settled((await account.latest(subscription)).id)
    expect([first.status, second.status, second.attempt_number]).toEqual(["failed", "succeeded", 2])
    await callBack(account, callbackUrl(name, account), first.id)
    expect(await account.books()).toEqual({
      clearing: 3 * PRICE,
      deferred_revenue: -2 * PRICE,
      refunds_payable: -PRICE,
    })
    expect(await account.exceptions()).toEqual([["succeeded_after_failure", first.id, null]])
    expect(await account.events(first.id)).toEqual(["charge.failed failed", "charge.retry_scheduled failed"])
    expect(data(await account.api.get(`/subscriptions/${subscription}`)).status).toBe("active")
  })

  it("owes back a late payment of a failed overdue bill, and leaves the bill overdue", async () => {
    const account = await open(name)
    const subscription = await account.subscribe(PRICE)
    account.plan("charge", faults.lateSuccess(1, "Insufficient Funds"))
    await account.pass(DUE)
    const first = await account.settled((await account.latest(subscription)).id)
    await callBack(account, callbackUrl(name, account), first.id)
    expect(data(await account.api.get(`/subscriptions/${subscription}`)).status).toBe("past_due")
    expect(await account.books()).toEqual({
      clearing: 2 * PRICE,
      deferred_revenue: -2 * PRICE,
      receivable: PRICE,
      refunds_payable: -PRICE,
    })
    expect(await account.exceptions()).toEqual([["succeeded_after_failure", first.id, null]])
  })

  it("books the whole of a too high amount for a failed charge", async () => {
    const account = await open(name)
    account.plan("charge", {
      outcome: {
        kind: "later",
        saying: "failed",
        asks: 1,
        becomes: { kind: "success", amountKobo: PRICE + 100 },
      },
    })
    const { id } = await account.charge(PRICE)
    await callBack(account, callbackUrl(name, account), id)
    expect(await account.books()).toEqual({ clearing: PRICE + 100, refunds_payable: -PRICE - 100 })
  })
})
