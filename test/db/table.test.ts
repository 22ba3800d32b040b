/** Tests the writes of a declared table: only columns with a value, and only columns that differ. */
import { Effect } from "effect"
import { beforeAll, describe, expect, it } from "vitest"
import { type CustomerRow, customers } from "../../src/billing/customer/customer.ts"
import { paymentMethods } from "../../src/billing/payment_method/paymentMethods.ts"
import { useDatabase } from "../support/database.ts"

const database = useDatabase()

const TENANT = { account_id: "acct_shapes", livemode: false }

const customer = (id: string, of: Partial<CustomerRow> = {}): CustomerRow => ({
  ...TENANT,
  id,
  name: "Ada",
  email: null,
  phone: null,
  default_payment_method_id: null,
  metadata: {},
  test_clock_id: null,
  created_at: Date.UTC(2026, 0, 31),
  ...of,
})

const kept = async (ids: ReadonlyArray<string>) => {
  const found = await database.run(() => customers.find(TENANT, ids))
  return ids.map((id) => found.get(id))
}

beforeAll(async () => {
  await database.run(
    (sql) => sql`INSERT INTO account (id, business_name, created_at) VALUES (${TENANT.account_id}, 'Shapes', now())`,
  )
})

describe("an insert", () => {
  it("stores nulls and values, in more combinations than there are prepared statements", async () => {
    await database.write((unit) => unit.insert(customers, [customer("cus_payer")]))
    const optional = { brand: "visa", last4: "4081", bank_name: "Bank", exp_month: 12, exp_year: 2030 }
    const empty = { brand: null, last4: null, bank_name: null, exp_month: null, exp_year: null }
    const names = Object.keys(optional) as ReadonlyArray<keyof typeof optional>
    const rows = Array.from({ length: 2 ** names.length }, (_, combination) => ({
      ...TENANT,
      id: `pm_test_${combination}`,
      customer_id: "cus_payer",
      type: "card" as const,
      ...empty,
      ...Object.fromEntries(names.flatMap((name, bit) => (combination & (1 << bit) ? [[name, optional[name]]] : []))),
      rail: "simulator" as const,
      created_at: Date.UTC(2026, 0, 31),
    }))
    await database.run(() => Effect.forEach(rows, (row) => paymentMethods.insertNew([row])))
    const found = await database.run(() =>
      paymentMethods.find(
        TENANT,
        rows.map(({ id }) => id),
      ),
    )
    expect(rows.map(({ id }) => found.get(id))).toEqual(rows)
  })

  it("writes a column that only one of several rows has", async () => {
    const rows = [customer("cus_none"), customer("cus_one", { email: "grace@example.com" })]
    await database.write((unit) => unit.insert(customers, rows))
    expect(await kept(["cus_none", "cus_one"])).toEqual(rows)
  })
})

describe("an update", () => {
  it("writes columns that differ in any row, and skips columns that differ in none", async () => {
    const rows = [customer("cus_a", { email: "a@example.com" }), customer("cus_b", { phone: "+2348012345678" })]
    await database.write((unit) => unit.insert(customers, rows))
    await database.run((sql) => sql`UPDATE customer SET phone = NULL, name = 'Changed' WHERE id IN ('cus_a', 'cus_b')`)
    const [a, b] = rows as [CustomerRow, CustomerRow]
    await database.write((unit) =>
      unit.update(customers, [
        { before: a, after: { ...a, email: null } },
        { before: b, after: { ...b, metadata: { tier: "gold" } } },
      ]),
    )
    expect(await kept(["cus_a", "cus_b"])).toEqual([
      customer("cus_a", { name: "Changed" }),
      customer("cus_b", { name: "Changed", metadata: { tier: "gold" } }),
    ])
  })

  it("writes nothing if nothing differs", async () => {
    const row = customer("cus_same")
    await database.write((unit) => unit.insert(customers, [row]))
    const versions = () =>
      database.run((sql) => sql<{ xmin: string }>`SELECT xmin::text FROM customer WHERE id = 'cus_same'`)
    const before = await versions()
    await database.write((unit) => unit.update(customers, [{ before: row, after: { ...row } }]))
    expect(await versions()).toEqual(before)
  })
})
