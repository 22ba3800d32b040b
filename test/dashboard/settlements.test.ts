/** Tests settlements: a member's file books payments of its own account only, once, after it was looked at. */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { dayOf } from "../../src/base/time.ts"
import { postEntries } from "../../src/ledger/ledger.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { bookEntry } from "../support/books.ts"
import { useOwnInstance } from "../support/instance.ts"
import { type Member, shownOf, signedIn } from "../support/member.ts"

const { database, server, accountId } = useOwnInstance()

const newAccount = () =>
  database.run(() =>
    Effect.map(createAccount({ businessName: "Payouts", liveAccess: "approved" }), ({ account }) => account.id),
  )

let payments = 0

/** A live payment of 500 kobo by Paystack on 31 January 2025; returns its reference. */
const pay = async (account: string): Promise<string> => {
  const chargeId = `chg_${account.slice(-8)}${++payments}`
  await database.write((unit) =>
    postEntries(unit, [
      bookEntry(account, {
        livemode: true,
        chargeId,
        day: dayOf(Date.UTC(2025, 0, 31)),
        lines: [
          { account: "clearing", detail: "paystack", amountKobo: 50_000 },
          { account: "one_off_revenue", detail: null, amountKobo: -50_000 },
        ],
      }),
    ]),
  )
  return chargeId
}

const PAGE = "/dashboard/live/settlements"

const upload = async (member: Member, text: string, rail = "paystack", token = member.formToken) => {
  const body = new FormData()
  body.append("form_token", token)
  body.append("rail", rail)
  body.append("file", new Blob([text], { type: "text/csv" }), "january <1>.csv")
  return shownOf(
    await fetch(`${server().origin}${PAGE}`, {
      method: "POST",
      body,
      redirect: "manual",
      headers: { cookie: `session=${member.cookie}`, accept: "text/html" },
    }),
  )
}

const csv = (...rows: ReadonlyArray<string>): string =>
  ["Reference,Amount,Fees,Amount Settled,Settlement Date", ...rows].join("\n")

const balanceOf = (account: string) =>
  database.run((sql) =>
    Effect.map(
      sql<{ ledger_account: string; balance_kobo: number }>`
        SELECT ledger_account, balance_kobo FROM finance.trial_balance WHERE account_id = ${account} AND livemode`,
      (rows) => Object.fromEntries(rows.map((row) => [row.ledger_account, row.balance_kobo])),
    ),
  )

const actionsOf = (account: string) =>
  database.run(
    (sql) => sql`SELECT action, actor_name FROM activity WHERE account_id = ${account} AND livemode ORDER BY id`,
  )

describe("a settlement file", () => {
  it("is looked at, booked once, and recorded; another account's payments are unknown", async () => {
    const [mine, other] = [await newAccount(), await newAccount()]
    const [reference, foreign] = [await pay(mine), await pay(other)]
    const finance = await signedIn(database, server().origin, mine, "finance")
    const text = csv(`${reference},500,7.50,492.50,2025-02-01`, `${foreign},500,7.50,492.50,2025-02-01`)
    const uploaded = await upload(finance, text)
    expect(uploaded.status).toBe(303)
    const path = uploaded.location!
    const trial = await finance.get(path)
    expect(trial.text).toContain("<h1>january &lt;1&gt;.csv</h1>")
    expect(trial.text).toContain("1 entry is booked.")
    expect(trial.text).toContain("Your books have no payment with this reference")
    expect(await balanceOf(mine)).toEqual({ clearing: 50_000, one_off_revenue: -50_000 })

    const booked = await finance.post(`${path}/book`)
    expect([booked.status, booked.location]).toEqual([303, `${path}?notice=settlement_imported`])
    const books = { clearing: 0, bank: 49_250, rail_fees: 750, one_off_revenue: -50_000 }
    expect(await balanceOf(mine)).toEqual(books)
    expect(await balanceOf(other)).toEqual({ clearing: 50_000, one_off_revenue: -50_000 })
    expect((await finance.post(`${path}/book`)).status).toBe(404)

    const again = await upload(finance, text)
    expect((await finance.get(again.location!)).text).toContain("0 entries are booked.")
    await finance.post(`${again.location}/book`)
    expect(await balanceOf(mine)).toEqual(books)
    expect(await actionsOf(mine)).toEqual([
      { action: "settlement.import", actor_name: finance.email },
      { action: "settlement.import", actor_name: finance.email },
    ])
    const list = await finance.get(PAGE)
    expect(list.text).toContain("1 of 2")
    expect((await finance.get(`${PAGE}.csv`)).text).toContain(",paystack,january <1>.csv,")
    const stranger = await signedIn(database, server().origin, other, "finance")
    expect((await stranger.get(path)).status).toBe(404)
    expect((await stranger.post(`${path}/book`)).status).toBe(404)
  })

  it("leaves a difference in suspense, which a person explains", async () => {
    const mine = await newAccount()
    const reference = await pay(mine)
    const finance = await signedIn(database, server().origin, mine, "finance")
    const uploaded = await upload(finance, csv(`${reference},500,7.50,490.00,2025-02-01`))
    await finance.post(`${uploaded.location}/book`)
    expect((await balanceOf(mine)).suspense).toBe(250)
    expect((await finance.get(PAGE)).text).toContain("₦2.50 too little was paid out")
    const path = `${PAGE}/suspense/${reference}`
    expect((await finance.post(path, { as: "rail_fees", reason: "" })).status).toBe(400)
    const done = await finance.post(path, { as: "rail_fees", reason: "Stamp duty" })
    expect(done.status).toBe(303)
    expect((await balanceOf(mine)).suspense).toBe(0)
    expect((await balanceOf(mine)).rail_fees).toBe(1_000)
    expect((await finance.get(done.location!)).text).toContain("Stamp duty")
    expect((await actionsOf(mine)).at(-1)).toEqual({ action: "suspense.explain", actor_name: finance.email })
    expect((await finance.get(path)).status).toBe(404)
  })

  it("is refused if it cannot be read, is too large, or comes with another session's token", async () => {
    const finance = await signedIn(database, server().origin, accountId(), "finance")
    const unreadable = await upload(finance, "Amount,Fees\n1,2\n")
    expect([unreadable.status, unreadable.text.includes("The file has no column with the reference")]).toEqual([
      400,
      true,
    ])
    expect((await upload(finance, csv(), "paystack", "wrong")).text).toContain("This form is not valid any more")
    const large = await upload(finance, csv("x".repeat(11 * 1024 * 1024)))
    expect(large.text).toContain("The file may have at most 10 MB")
    expect((await upload(finance, csv(), "simulator")).status).toBe(400)
    for (const role of ["developer", "support"] as const) {
      const other = await signedIn(database, server().origin, accountId(), role)
      expect((await other.get(PAGE)).status).toBe(403)
      expect((await upload(other, csv())).status).toBe(403)
      expect((await other.get("/dashboard/live")).text).not.toContain(`href="${PAGE}"`)
    }
  })
})
