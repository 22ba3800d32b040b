/** Tests the pages of the books: they show the finance views' sums, of one account only, and close months for it alone. */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { formatKobo } from "../../src/base/money.ts"
import { dayOf } from "../../src/base/time.ts"
import { postEntries } from "../../src/ledger/ledger.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { bookEntry } from "../support/books.ts"
import { useOwnInstance } from "../support/instance.ts"
import { signedIn } from "../support/member.ts"
import { subscribe } from "../support/story.ts"

const { database, server, accountId, api } = useOwnInstance()

const member = (role: Parameters<typeof signedIn>[3] = "finance", account = accountId()) =>
  signedIn(database, server().origin, account, role)

const on = (year: number, month: number, day: number) => dayOf(Date.UTC(year, month - 1, day))

const newAccount = () =>
  database.run(() =>
    Effect.map(createAccount({ businessName: "Books", liveAccess: "approved" }), ({ account }) => account.id),
  )

const post = (account: string, day: number, kobo: number, customerId = "cus_1") =>
  database.write((unit) =>
    postEntries(unit, [
      bookEntry(account, {
        livemode: true,
        day,
        customerId,
        lines: [
          { account: "clearing", detail: "paystack", amountKobo: kobo },
          { account: "one_off_revenue", detail: null, amountKobo: -kobo },
        ],
      }),
    ]),
  )

const entriesOf = (account: string) =>
  database.run(
    (sql) => sql<{ id: string; occurred_on: string; effective_on: string }>`
      SELECT id, occurred_on::text, effective_on::text FROM ledger_entry WHERE account_id = ${account} ORDER BY id`,
  )

const BOOKS = "/dashboard/live/books"
/** More entries than a page checks while it loads. */
const LARGE = 5_001

describe("the books", () => {
  it("are for the finance right: others get 403 and no link", async () => {
    for (const role of ["developer", "support"] as const) {
      const other = await member(role)
      expect((await other.get("/dashboard/live")).text).not.toContain('href="/dashboard/live/books"')
      for (const path of ["", ".csv", "/rules", "/clearing", "/export?format=csv", "/months/2025-01/close"])
        expect((await other.get(`${BOOKS}${path}`)).status, path).toBe(403)
      expect((await other.post(`${BOOKS}/months/2025-01/close`)).status).toBe(403)
    }
    expect((await (await member()).get("/dashboard/live")).text).toContain('href="/dashboard/live/books"')
  })

  it("show the sums of the finance views, now and at the end of a day", async () => {
    await subscribe(api, "2026-01-31T00:00:00Z", "pm_test_success")
    const finance = await member()
    const page = await finance.get("/dashboard/sandbox/books")
    const rows = await database.run(
      (sql) => sql<{ name: string; debit_kobo: number; credit_kobo: number }>`
        SELECT name, debit_kobo, credit_kobo FROM finance.trial_balance WHERE account_id = ${accountId()} AND NOT livemode`,
    )
    expect(rows.length).toBeGreaterThan(1)
    for (const { name, debit_kobo, credit_kobo } of rows)
      for (const text of [name, formatKobo(debit_kobo), formatKobo(credit_kobo)]) expect(page.text).toContain(text)
    expect((await finance.get("/dashboard/sandbox/books?at=2026-01-30")).text).not.toContain("Clearing: money")
    const csv = await finance.get("/dashboard/sandbox/books.csv")
    expect(csv.text).toContain("clearing,Clearing: money at the payment rails,asset,5000,0,5000")
    const days = await finance.get("/dashboard/sandbox/books/clearing")
    expect(days.text).toContain('href="/dashboard/sandbox/books/clearing/2026-01-31"')
    const day = await finance.get("/dashboard/sandbox/books/clearing/2026-01-31")
    const entry = /books\/entries\/(\w+)"/.exec(day.text)?.[1]
    const shown = await finance.get(`/dashboard/sandbox/books/entries/${entry}`)
    expect(shown.text).toContain("A bill or a one-off charge is paid when it is due.")
    expect(shown.text).toContain("pending")
    expect((await finance.get("/dashboard/sandbox/books/rules")).text).toContain("All rules hold.")
    expect((await finance.get("/dashboard/sandbox/books/nothing")).status).toBe(404)
  })

  it("are exported for the own account and environment only", async () => {
    const [mine, other] = [await newAccount(), await newAccount()]
    await post(mine, on(2025, 1, 31), 100, "cus_mine")
    await post(other, on(2025, 1, 31), 200, "cus_other")
    const finance = await member("finance", mine)
    for (const format of ["csv", "hledger", "quickbooks", "sage", "zoho"]) {
      const file = await finance.get(`${BOOKS}/export?format=${format}&month=2025-01`)
      expect(file.status).toBe(200)
      expect(file.headers.get("content-disposition")).toContain("books-live-2025-01")
      expect(file.text).toContain("cus_mine")
      expect(file.text).not.toContain("cus_other")
    }
    expect((await finance.get(`${BOOKS}/export?format=csv&month=2025-02`)).text).not.toContain("cus_mine")
    const [foreign] = await entriesOf(other)
    expect((await finance.get(`${BOOKS}/entries/${foreign!.id}`)).status).toBe(404)
  })
})

describe("a month", () => {
  it("is closed and opened again by one account, and stays open for all others", async () => {
    const [mine, other] = [await newAccount(), await newAccount()]
    await post(mine, on(2025, 1, 31), 100)
    const finance = await member("finance", mine)
    const close = `${BOOKS}/months/2025-01/close`
    expect((await finance.get(close)).text).toContain("as a correction")
    const closed = await finance.post(close, { reason: "The test has no charge of it", intent: "confirm" })
    expect([closed.status, closed.location]).toEqual([303, `${BOOKS}?notice=month_closed`])
    await post(mine, on(2025, 1, 30), 5)
    await post(other, on(2025, 1, 30), 5)
    expect((await entriesOf(mine)).map(({ effective_on }) => effective_on)).toEqual(["2025-01-31", "2025-02-01"])
    expect((await entriesOf(other)).map(({ effective_on }) => effective_on)).toEqual(["2025-01-30"])
    expect((await finance.post(close, { reason: "again" })).status).toBe(409)

    const reopen = `${BOOKS}/months/2025-01/reopen`
    expect((await finance.post(reopen, { reason: "" })).status).toBe(400)
    expect((await finance.post(reopen, { reason: "A fee was missing" })).status).toBe(303)
    await post(mine, on(2025, 1, 29), 5)
    expect((await entriesOf(mine)).at(-1)?.effective_on).toBe("2025-01-29")
    const done = await database.run(
      (sql) =>
        sql`SELECT action, object_id, actor_name FROM activity WHERE account_id = ${mine} AND livemode ORDER BY id`,
    )
    expect(done).toEqual([
      { action: "books.close", object_id: "2025-01", actor_name: finance.email },
      { action: "books.reopen", object_id: "2025-01", actor_name: finance.email },
    ])
    expect((await finance.get(BOOKS)).text).toContain("A fee was missing")
  })

  it("that is not over cannot be closed, and one that the service closed cannot be opened", async () => {
    const mine = await newAccount()
    const finance = await member("finance", mine)
    const now = new Date().toISOString().slice(0, 7)
    expect((await finance.post(`${BOOKS}/months/${now}/close`, { reason: "early" })).status).toBe(409)
    await database.run(
      (sql) => sql`INSERT INTO ledger_closing (action, month, through) VALUES ('close', '2024-01-01', '2024-01-31')`,
    )
    const refused = await finance.post(`${BOOKS}/months/2024-01/reopen`, { reason: "please" })
    expect([refused.status, refused.text.includes("was closed by the service")]).toEqual([409, true])
  })

  it("of large books is checked when it is closed, not while pages load", async () => {
    const account = await newAccount()
    const entry = () => bookEntry(account, { livemode: true, day: on(2025, 1, 31) })
    await database.write((unit) => postEntries(unit, Array.from({ length: LARGE }, entry)))
    const finance = await member("finance", account)
    expect((await finance.get(`${BOOKS}/rules`)).text).toContain("too large to be checked while a page loads")
    const page = `${BOOKS}/months/2025-01/close`
    expect((await finance.get(page)).text).toContain("The rules of the books are checked when you close the month.")
    // The entries name a customer who does not exist.
    const refused = await finance.post(page)
    expect([refused.status, refused.text.includes("Give the reason")]).toEqual([400, true])
    const closed = await finance.post(page, { reason: "Known" })
    expect([closed.status, closed.location]).toEqual([303, `${BOOKS}?notice=month_closed`])
  })
})
