/** Tests failed charges for which the rail announces a result afterwards (decision P10). */
import { afterAll, beforeAll, expect, it } from "vitest"
import { useOwnInstance } from "../support/instance.ts"
import type { Fault } from "../support/rails/fault.ts"
import { faults } from "../support/rails/fault.ts"
import { putOnRail, saveCard } from "../support/rails/merchant.ts"
import { startPaystack } from "../support/rails/paystack.ts"
import { createCustomer, data, eventually } from "../support/story.ts"

const paystack = await startPaystack()
afterAll(() => paystack.close())

const { database, live: api, accountId, server } = useOwnInstance(() => ({ PAYSTACK_URL: paystack.url }))

const merchant = [...paystack.merchants.values()][0]!

beforeAll(async () => {
  await putOnRail(database, accountId(), "paystack", merchant)
  paystack.sendCallbacksTo(`${server().origin}/callbacks/paystack/${accountId()}`)
})

const exceptionsOf = (charge: string) =>
  database.run(
    (sql) => sql<{ kind: string }>`
      SELECT kind FROM finance.reconciliation_exceptions WHERE charge = ${charge} ORDER BY kind`,
  )

/** The scheduled verification. undefined if there is none. */
const postponed = async (charge: string) => {
  const [call] = await database.run(
    (sql) => sql<{ kind: string; waits: boolean }>`
      SELECT kind, queued_at > clock_timestamp() + interval '50 minutes' AS waits FROM rail_call WHERE id = ${charge} AND runner IS NULL`,
  )
  return call?.waits === true ? call.kind : undefined
}

const UNANSWERED: ReadonlyArray<readonly [string, Fault]> = [
  ["a broken connection", faults.silenceBefore()],
  ["HTTP 503", faults.unavailableBefore()],
  ["HTTP 429", faults.tooMany()],
  ["HTTP 401", faults.unauthorized()],
  ["another reference's transaction", faults.wrongReference()],
]

it.each(UNANSWERED)("is verified again later if the first verification returns %s", async (_, fault) => {
  const customer = await createCustomer(api, { email: "ada@example.com" })
  const method = await saveCard(database, accountId(), "paystack", merchant, customer, "ada@example.com")
  paystack.plan("charge", "next", faults.lateSuccess(Number.POSITIVE_INFINITY))
  const failed = data(
    await api.post("/charges", { customer, amount: 200_000, currency: "NGN", payment_method: method }),
    201,
  )
  expect(failed).toMatchObject({ status: "failed" })

  paystack.plan("verify", failed.id, fault)
  // It is paid after all, and the rail announces it.
  paystack.settle(failed.id)
  expect(await eventually(() => postponed(failed.id))).toBe("ask")
  const before = await exceptionsOf(failed.id)
  expect(before).toEqual(fault.answer === "wrong_reference" ? [{ kind: "reference_differs" }] : [])

  await database.run(
    (sql) => sql`UPDATE rail_call SET queued_at = queued_at - interval '1 hour' WHERE id = ${failed.id}`,
  )
  const after = await eventually(async () => {
    const listed = await exceptionsOf(failed.id)
    return listed.length > before.length ? listed : undefined
  })
  expect(after).toEqual([...before, { kind: "succeeded_after_failure" }])
  const left = await database.run((sql) => sql`SELECT 1 FROM rail_call WHERE id = ${failed.id}`)
  expect(left).toEqual([])
})
