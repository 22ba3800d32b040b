/** Tests servers that die while buyers pay their instalments: no buyer pays twice, and nothing is lost. */
import { expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createApi } from "../support/api.ts"
import { submit } from "../support/checkout.ts"
import { useDatabase } from "../support/database.ts"
import { holdTable } from "../support/hold.ts"
import { beginPlan, createProduct } from "../support/instalments.ts"
import { startServer } from "../support/server.ts"
import { data, eventually } from "../support/story.ts"
import { expectWhole } from "../support/whole.ts"

const database = useDatabase()

it("before the rail received a payment, or before its answer was written", async () => {
  const { keys } = await database.run(() => createAccount({ businessName: "Crash" }))
  let server = await startServer(database.url())
  const api = () => createApi(server.origin, keys.sk_test)
  const buyers = () => createApi(server.origin, undefined)
  const here = (url: string) => `${server.origin}${new URL(url).pathname}`
  data(await api().patch("/providers/me/vertical", { vertical: "ecommerce" }))
  const product = await createProduct(api(), { slots: 4 })
  for (const [table, isSent] of [
    ["simulator_attempt", false],
    ["ledger_entry", true],
  ] as const) {
    const plan = await beginPlan(buyers(), product)
    const form = { payment_method: "pm_test_visa", submission: `the form ${table}` }
    const locked = await holdTable(database, table)
    const cut = submit(here(plan.paymentUrl), form).catch(() => undefined)
    await eventually(async () => {
      const [row] = await database.run(
        (sql) => sql<{ pending: number; sent: number }>`
          SELECT count(*) AS pending, count(a.reference) AS sent
          FROM charge c LEFT JOIN simulator_attempt a ON a.reference = c.id WHERE c.status = 'pending'`,
      )
      return row!.pending === 1 && row!.sent === (isSent ? 1 : 0) ? true : undefined
    })
    await server.kill()
    expect(await cut).toBe(undefined)
    await locked.end()
    server = await startServer(database.url())
    // The same form again gets the result, and another tab pays nothing twice.
    const again = await submit(here(plan.paymentUrl), form)
    expect(data(again)).toMatchObject({ status: "paid", amount: 1_000, plan: { amountPaid: 1_000 } })
    expect(data(await api().get(`/provider-savings/${plan.id}`))).toMatchObject({
      status: "active",
      instalmentsPaid: 1,
    })
  }
  // Twelve buyers at the same time for the two slots left, and a crash in the middle.
  const many = Promise.all(
    Array.from({ length: 12 }, (_, n) =>
      buyers()
        .post(
          `/public/save-to-buy/products/${product}/plans`,
          { buyer: { name: "Ada", email: "ada@example.com" } },
          { "idempotency-key": `crash ${n}` },
        )
        .catch(() => undefined),
    ),
  )
  await eventually(async () => {
    const rows = await database.run((sql) => sql`SELECT 1 FROM instalment_plan`)
    return rows.length >= 3 ? true : undefined
  })
  await server.kill()
  await many
  server = await startServer(database.url())
  const [row] = await database.run(
    (sql) => sql<{ used: number; plans: number }>`
      SELECT slots_used AS used, (SELECT count(*) FROM instalment_plan p WHERE p.product_id = d.id AND status <> 'cancelled') AS plans FROM instalment_product d`,
  )
  expect(row!.used).toBe(row!.plans)
  expect(row!.used).toBeLessThanOrEqual(4)
  await server.stop()
  await expectWhole(database)
})
