/** Tests closed months: the database refuses late entries, and the service books them as corrections. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { describe, expect, it } from "vitest"
import { dayOf } from "../../src/base/time.ts"
import { checkLedger, postEntries } from "../../src/ledger/ledger.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { bookEntry } from "../support/books.ts"
import { useCommandLine } from "../support/commandLine.ts"
import { useOwnInstance } from "../support/instance.ts"
import { advance, data, subscribe } from "../support/story.ts"

const { api, database, accountId } = useOwnInstance()

const command = useCommandLine(database)
const cli = async (...args: ReadonlyArray<string>) => {
  const { code, output, errors } = await command("ledger", ...args, "--json")
  return { code, errors, document: output === "" ? undefined : JSON.parse(output) }
}

const account = () =>
  database.run(() => Effect.map(createAccount({ businessName: "Books" }), ({ account }) => account.id))
const on = (year: number, month: number, day: number) => dayOf(Date.UTC(year, month - 1, day))

interface Entry {
  readonly id: string
  readonly event: string
  readonly occurred_on: string
  readonly effective_on: string
  readonly corrects: string | null
}

const entries = (mine: (sql: SqlClient.SqlClient) => Fragment) =>
  database.run(
    (sql) => sql<Entry>`
      SELECT id, event, occurred_on::text, effective_on::text, corrects FROM ledger_entry WHERE ${mine(sql)} ORDER BY id`,
  )

const trialBalance = (id: string, day: string) =>
  database.run((sql) =>
    Effect.map(
      sql<{ ledger_account: string; balance_kobo: number }>`
        SELECT ledger_account, balance_kobo FROM finance.trial_balance_at(${day}) WHERE account_id = ${id} AND balance_kobo <> 0 ORDER BY 1`,
      (rows) => Object.fromEntries(rows.map((row) => [row.ledger_account, row.balance_kobo])),
    ),
  )

describe("a month", () => {
  it("is closed, accepts no entries, is summed, and is opened again for a reason that is stored", async () => {
    const id = await account()
    const live = (day: number, kobo: number) =>
      bookEntry(id, {
        livemode: true,
        day,
        lines: [
          { account: "clearing", detail: "paystack", amountKobo: kobo },
          { account: "one_off_revenue", detail: null, amountKobo: -kobo },
        ],
      })
    await database.write((unit) =>
      postEntries(unit, [live(on(2025, 1, 31), 100), live(on(2025, 2, 1), 20), live(on(2025, 3, 15), 3)]),
    )
    const before = await Promise.all(["2025-01-31", "2025-02-15", "2025-03-31"].map((day) => trialBalance(id, day)))
    expect(before.map((one) => one.clearing)).toEqual([100, 120, 123])

    const closed = await cli("close", "--through", "2025-02")
    expect([closed.code, closed.document.closed_through, closed.document.open_from]).toEqual([
      0,
      "2025-02",
      "2025-03-01",
    ])
    const after = await Promise.all(["2025-01-31", "2025-02-15", "2025-03-31"].map((day) => trialBalance(id, day)))
    expect(after).toEqual(before)
    const totals = await database.run(
      (sql) => sql<{ month: string; kobo: number }>`
        SELECT to_char(month, 'YYYY-MM') AS month, debit_kobo - credit_kobo AS kobo FROM ledger_total
        WHERE account_id = ${id} AND ledger_account = 'clearing' ORDER BY month`,
    )
    expect(totals).toEqual([
      { month: "2025-01", kobo: 100 },
      { month: "2025-02", kobo: 20 },
    ])

    const refused = await database.run((sql) =>
      Effect.flip(
        sql`
          WITH e AS (
            INSERT INTO ledger_entry (account_id, livemode, id, event, idempotency_key, occurred_on, effective_on, line_count)
            VALUES (${id}, true, 'le_late', 'paid', 'late', '2025-02-28', '2025-02-28', 2)
          )
          INSERT INTO ledger_line (account_id, livemode, entry_id, line_no, ledger_account, currency, amount_kobo, effective_on)
          VALUES (${id}, true, 'le_late', 1, 'clearing', 'NGN', 5, '2025-02-28'), (${id}, true, 'le_late', 2, 'one_off_revenue', 'NGN', -5, '2025-02-28')`,
      ),
    )
    expect((refused.reason as { cause?: { constraint?: string } }).cause?.constraint).toBe("ledger_month_open")

    // Closing it again changes nothing.
    expect((await cli("close", "--through", "2025-01")).document).toEqual(closed.document)
    expect((await cli("reopen", "2025-03", "--reason", "x")).errors).toContain(
      "not closed: the books are closed through 2025-02",
    )
    const opened = await cli("reopen", "2025-02", "--reason", "A missing payment")
    expect(opened.document).toMatchObject({
      closed_through: "2025-01",
      open_from: "2025-02-01",
      closings: [
        { action: "reopen", month: "2025-02", reason: "A missing payment" },
        { action: "close", month: "2025-02", reason: null },
      ],
    })
    await database.write((unit) => postEntries(unit, [live(on(2025, 2, 28), 5)]))
    expect((await cli("close", "--through", "2025-02")).document.closed_through).toBe("2025-02")
    expect((await trialBalance(id, "2025-02-28")).clearing).toBe(125)
    expect(
      await database.run((sql) => sql`SELECT rule FROM finance.breaches WHERE rule IN ('totals', 'dated')`),
    ).toEqual([])
  })

  it("that is over gets later entries as corrections on the first open day, also on a clock", async () => {
    // Opens all months that the story before has closed.
    expect((await cli("reopen", "2024-01", "--reason", "Another story")).code).toBe(0)
    const story = await subscribe(api, "2024-01-20T00:00:00Z", "pm_test_success", { amount: 31_000 })
    const { clock, customer, id, plan } = story
    await advance(api, clock, "2024-01-25T00:00:00Z")
    const [sale] = await entries((sql) => sql`plan_id = ${plan} AND event = 'paid'`)
    const state = await cli("close", "--through", "2025-02")
    expect(state.document.closed_through).toBe("2025-02")
    await advance(api, clock, "2024-01-27T00:00:00Z")
    data(await api.post(`/subscriptions/${id}/cancel`))
    const late = await entries((sql) => sql`plan_id = ${plan} AND effective_on <> occurred_on`)
    expect(late.map(({ event, occurred_on, effective_on }) => [event, occurred_on, effective_on])).toEqual([
      ["recognised", "2024-01-25", "2025-03-01"],
      ["recognised", "2024-01-26", "2025-03-01"],
      ["service_ended", "2024-01-27", "2025-03-01"],
    ])
    const recognised = await entries(
      (sql) => sql`plan_id = ${plan} AND event = 'recognised' AND effective_on = occurred_on`,
    )
    expect(late.map(({ corrects }) => corrects)).toEqual([recognised.at(-1)!.id, recognised.at(-1)!.id, sale!.id])
    // The balance of a day in the closed month has only the entries booked in it.
    const deferred = async (at: string) => {
      const { document } = await cli("why", accountId(), "deferred_revenue", "--customer", customer, "--at", at)
      return document.environments[0].balance_kobo
    }
    expect(await Promise.all(["2024-01-22", "2024-01-26", "2025-02-28", "2025-03-01"].map(deferred))).toEqual([
      -28_000, -26_000, -26_000, 0,
    ])
    expect(await database.run(() => checkLedger())).toMatchObject({ ok: true })
  })

  it("is closed when no transaction posts into it, however many do", async () => {
    const id = await account()
    const posted = Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        database.write((unit) =>
          postEntries(unit, [bookEntry(id, { day: on(2025, 4, 1 + (n % 28)), idempotencyKey: `many:${n}` })]),
        ),
      ),
    )
    const [closed] = await Promise.all([cli("close", "--through", "2025-04"), posted])
    expect(closed.code).toBe(0)
    const rows = await database.run(
      (sql) => sql<{ early: boolean }>`
        SELECT e.posted_at <= c.at AS early FROM ledger_entry e, (SELECT at FROM ledger_closing WHERE month = '2025-04-01' ORDER BY no DESC LIMIT 1) c
        WHERE e.account_id = ${id} AND e.effective_on < '2025-05-01'`,
    )
    expect(rows.length).toBeLessThanOrEqual(40)
    const all = await entries((sql) => sql`account_id = ${id}`)
    expect(all).toHaveLength(40)
    for (const { occurred_on, effective_on } of all) expect(["2025-05-01", occurred_on]).toContain(effective_on)
  })

  it("is refused if it has not started, or does not exist", async () => {
    expect((await cli("close", "--through", "2999-01")).errors).toContain("has not started yet")
    for (const wrong of ["2025-13", "0000-01", "1969-12"]) expect((await cli("close", "--through", wrong)).code).toBe(2)
    expect((await cli("reopen", "0000-01", "--reason", "x")).code).toBe(2)
    expect((await cli("close")).code).toBe(2)
    expect((await cli("reopen", "2025-04")).code).toBe(2)
  })
})
