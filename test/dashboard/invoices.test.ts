/** Tests the pages of the service's invoices. */
import { describe, expect, it } from "vitest"
import { formatKobo } from "../../src/base/money.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { drawLastMonth } from "../../src/merchants/invoice/invoices.ts"
import { monthOf } from "../../src/merchants/usage/allowances.ts"
import { createApi } from "../support/api.ts"
import { useOwnInstance } from "../support/instance.ts"
import { signedIn } from "../support/member.ts"
import { useServices } from "../support/services.ts"
import { data } from "../support/story.ts"

const { database, server } = useOwnInstance(() => ({ WORKERS: "0" }))
const run = useServices(database)

const PAGE = "/dashboard/live/invoices"

describe("the invoices", () => {
  it("show this month's usage, and each invoice with its lines and its PDF, to finance only", async () => {
    const { account, keys } = await database.run(() =>
      createAccount({ businessName: "Ikeja Gym", liveAccess: "approved", apiPlan: "growth" }),
    )
    const last = monthOf(Date.now(), -1)
    await database.run(
      (sql) => sql`UPDATE account SET created_at = created_at - interval '100 days' WHERE id = ${account.id}`,
    )
    await database.run(
      (sql) => sql`
        INSERT INTO usage_counter (account_id, livemode, period_start_at, write_requests, nudges)
        VALUES (${account.id}, true, ${new Date(last.start)}, 10, 1)`,
    )
    await run(drawLastMonth)
    const [invoice] = data(await createApi(server().origin, keys.sk_live!, "live").get("/account/invoices"))
    const finance = await signedIn(database, server().origin, account.id, "finance")
    const list = await finance.get(PAGE)
    expect(list.text).toContain("This month until now: nothing beyond your plan")
    expect(list.text).toContain(`href="${PAGE}/${invoice.id}"`)
    const one = await finance.get(`${PAGE}/${invoice.id}`)
    expect(one.text).toContain(`<h1>Invoice for ${invoice.period_start.slice(0, 7)}</h1>`)
    expect(one.text).toContain(formatKobo(invoice.total))
    expect(one.text).toContain(invoice.lines[0].description)
    expect(one.text).toContain(`/invoices/${invoice.id}.pdf?expires=`)
    expect((await finance.get(`${PAGE}.csv`)).text).toContain(`${invoice.id},open,`)
    expect((await finance.get("/dashboard/sandbox/invoices")).text).toContain("The sandbox is free.")
    expect((await finance.get(`${PAGE}?status=paid`)).text).toContain("Nothing matches")
    for (const role of ["developer", "support"] as const) {
      const other = await signedIn(database, server().origin, account.id, role)
      expect((await other.get(PAGE)).status).toBe(403)
      expect((await other.get(`${PAGE}/${invoice.id}`)).status).toBe(403)
      expect((await other.get("/dashboard/live")).text).not.toContain(`href="${PAGE}"`)
    }
  })
})
