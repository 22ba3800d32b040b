/** Tests that the amount a rail took to save a card is returned in full, and once (decision P8). */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { PAGE_LIFETIME_MS } from "../../machines/charge.ts"
import { refundTimers } from "../../src/billing/refund/calls.ts"
import { sweep } from "../../src/runtime/fire.ts"
import { comeBack, submit, URLS } from "../support/checkout.ts"
import { post } from "../support/rails/callbacks.ts"
import { faults } from "../support/rails/fault.ts"
import { BOTH, emailOf, type LiveAccount, useRails } from "../support/rails/live.ts"
import { useServices } from "../support/services.ts"
import { createCustomer, data, eventually } from "../support/story.ts"

const { database, open, callbackUrl } = useRails()
const services = useServices(database)

const HOUR_MS = 3_600_000

const named = (account: string) => database.run((sql) => sql`SELECT 1 FROM rail_callback WHERE account_id = ${account}`)
const calls = (account: string) => database.run((sql) => sql`SELECT 1 FROM rail_call WHERE account_id = ${account}`)

/** A session whose page is saving a card. */
const openVerification = async (account: LiveAccount) => {
  const customer = await createCustomer(account.api, { email: emailOf(account.id) })
  const session = data(await account.api.post("/checkout-sessions", { mode: "setup", customer, ...URLS }), 201)
  data(await submit(session.url, {}))
  const [charge] = await database.run((sql) => sql<{ id: string }>`SELECT id FROM charge WHERE page_id = ${session.id}`)
  return { session, charge: charge!.id }
}

interface Verification {
  readonly status: string
  readonly taken: boolean
  readonly returned: boolean
}

const verificationOf = async (reference: string) => {
  const [row] = await database.run(
    (sql) => sql<Verification>`
      SELECT status, taken_at IS NOT NULL AS taken, returned_at IS NOT NULL AS returned
      FROM finance.card_verifications WHERE reference = ${reference}`,
  )
  return row!
}

describe.each(BOTH)("%s", (rail) => {
  it("returns the whole amount, once, if it took too much and its first answer is lost", async () => {
    const account = await open(rail)
    const { session, charge } = await openVerification(account)
    account.plan("page", faults.twice())
    account.plan("refund", faults.refundCut())
    await account.rail.payOnPage(charge, "pay")
    await comeBack(session.url)
    expect(await account.exceptions()).toEqual([["amount_exceeds", charge, 10_000]])

    const refund = () =>
      database.run(
        (sql) => sql<{ state: string; amount_kobo: number }>`
          SELECT state, amount_kobo FROM refund WHERE charge_id = ${charge}`,
      )
    const inState = (state: string) =>
      eventually(async () => {
        const [row] = await refund()
        return row?.state === state ? row : undefined
      })
    expect(await inState("pending.waiting")).toEqual({ state: "pending.waiting", amount_kobo: 10_000 })
    // It is requested once more.
    for (let times = 0; (await refund())[0]!.state !== "returned"; times++) {
      expect(times).toBeLessThan(3)
      await account.pass(HOUR_MS)
      await services(Effect.scoped(sweep([refundTimers])))
      await eventually(async () => ((await calls(account.id)).length === 0 ? true : undefined))
    }
    // Paystack answers immediately, and does it later.
    account.merchant.books.settleAll()
    expect(account.merchant.books.totalReturned()).toBe(10_000)
    expect(await account.books()).toEqual({})
  })

  it("returns once the amount taken on a page that was given up", async () => {
    const account = await open(rail)
    const { charge } = await openVerification(account)
    await account.pass(PAGE_LIFETIME_MS)
    expect(await eventually(async () => ((await account.see(charge)).status === "failed" ? true : undefined))).toBe(
      true,
    )
    expect(await verificationOf(charge)).toEqual({ status: "failed", taken: false, returned: false })

    // The page was still open, and the rail announces the payment repeatedly.
    const { merchant } = account
    const url = callbackUrl(rail, account)
    account.rail.plan("refund", "next", faults.refundPendingUntil(Number.POSITIVE_INFINITY))
    account.plan("page", faults.wrongAmount(5_009))
    await account.rail.payOnPage(charge, "pay")
    const callBack = () => post(url, account.rail.callbackFor(charge, { merchant }))
    expect(await Promise.all([callBack(), callBack()])).toEqual([200, 200])
    const inStatus = (status: string) =>
      eventually(async () => {
        const now = await verificationOf(charge)
        return now.status === status ? now : undefined
      })
    expect(await inStatus("taken")).toEqual({ status: "taken", taken: true, returned: false })
    await eventually(async () => (merchant.books.get(charge).refunds.length > 0 ? true : undefined))
    expect(await account.books()).toEqual({ clearing: 5_009, refunds_payable: -5_009 })

    merchant.books.settleAll()
    const returned = await eventually(async () => {
      await callBack()
      return (await verificationOf(charge)).status === "returned" ? await verificationOf(charge) : undefined
    })
    expect(returned).toEqual({ status: "returned", taken: true, returned: true })
    expect(merchant.books.totalReturned()).toBe(5_009)
    expect(merchant.books.get(charge).refunds).toHaveLength(1)
    expect(await account.books()).toEqual({})
    // A returned payment is not verified any more: the rail reports it as reversed.
    for (let times = 0; times < 2; times++) {
      await callBack()
      await eventually(async () =>
        (await calls(account.id)).length === 0 && (await named(account.id)).length === 0 ? true : undefined,
      )
    }
    expect(await account.exceptions()).toEqual([
      ["amount_exceeds", charge, 5_009],
      ["succeeded_after_failure", charge, null],
    ])
  })
})
