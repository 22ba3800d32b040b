/** What a rail took to save a card goes back whole, and once (decision P8). */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { refundTimers } from "../../src/refund/requests.ts"
import { sweep } from "../../src/runtime/fire.ts"
import { comeBack, submit, URLS } from "../support/checkout.ts"
import { faults } from "../support/rails/fault.ts"
import { BOTH, emailOf, useRails } from "../support/rails/live.ts"
import { useServices } from "../support/services.ts"
import { createCustomer, data, eventually } from "../support/story.ts"

const { database, open } = useRails()
const services = useServices(database)

const HOUR_MS = 3_600_000

const calls = (account: string) => database.run((sql) => sql`SELECT 1 FROM rail_call WHERE account_id = ${account}`)

describe.each(BOTH)("%s", (rail) => {
  it("sends back all that it took, once, where it took too much and its first answer is lost", async () => {
    const account = await open(rail)
    const customer = await createCustomer(account.api, { email: emailOf(account.id) })
    const session = data(await account.api.post("/checkout-sessions", { mode: "setup", customer, ...URLS }), 201)
    data(await submit(session.url, {}))
    const [charge] = await database.run(
      (sql) => sql<{ id: string }>`SELECT id FROM charge WHERE page_id = ${session.id}`,
    )
    account.plan("page", faults.twice())
    account.plan("refund", faults.refundCut())
    await account.rail.payOnPage(charge!.id, "pay")
    await comeBack(session.url)
    expect(await account.exceptions()).toEqual([["amount_exceeds", charge!.id, 10_000]])

    const refund = () =>
      database.run(
        (sql) => sql<{ state: string; amount_kobo: number }>`
          SELECT state, amount_kobo FROM refund WHERE charge_id = ${charge!.id}`,
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
    // Paystack says at once what it does later.
    account.merchant.books.settleAll()
    expect(account.merchant.books.totalReturned()).toBe(10_000)
    expect(await account.books()).toEqual({})
  })
})
