/** Tests the entries that the database refuses. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { describe, expect, it } from "vitest"
import { unitOfWork } from "../../src/db/UnitOfWork.ts"
import { checkLedger, type NewEntry, postEntries } from "../../src/ledger/ledger.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { bookEntry } from "../support/books.ts"
import { constraintOf } from "../support/constraints.ts"
import { useDatabase } from "../support/database.ts"

const database = useDatabase()

const account = () =>
  database.run(() => Effect.map(createAccount({ businessName: "Books" }), ({ account }) => account.id))

/** The name of the constraint that refuses the write of `program`. */
const refusal = (program: (sql: SqlClient.SqlClient) => Effect.Effect<unknown, unknown, SqlClient.SqlClient>) =>
  database.run((sql) => constraintOf(program(sql)))

describe("the ledger refuses", () => {
  it("an entry that does not balance", async () => {
    const id = await account()
    expect(
      await refusal(
        (sql) => sql`
          WITH e AS (INSERT INTO ledger_entry (account_id, livemode, id, event, idempotency_key, effective_on, occurred_on, line_count) VALUES (${id}, false, 'le_off', 'paid', 'off', now(), now(), 2))
          INSERT INTO ledger_line (account_id, livemode, entry_id, line_no, ledger_account, currency, amount_kobo, effective_on)
          VALUES (${id}, false, 'le_off', 1, 'clearing', 'NGN', 500, now()), (${id}, false, 'le_off', 2, 'deferred_revenue', 'NGN', -499, now())`,
      ),
    ).toBe("ledger_entry_balances")
    expect((await database.run(() => checkLedger())).entries).toBe(0)
  })

  it("a request for an entry that does not balance, or for one without lines", async () => {
    const id = await account()
    const lines = [
      { account: "clearing", detail: null, amountKobo: 500 },
      { account: "deferred_revenue", detail: null, amountKobo: -499 },
    ] as const
    const asked = (wrong: NewEntry) => database.write((unit) => postEntries(unit, [bookEntry(id), wrong]))
    await expect(asked(bookEntry(id, { idempotencyKey: "off", lines }))).rejects.toThrow(
      "The entry off has 2 lines that sum to 1 kobo.",
    )
    await expect(asked(bookEntry(id, { idempotencyKey: "bare", lines: [] }))).rejects.toThrow(
      "The entry bare has 0 lines that sum to 0 kobo.",
    )
    expect((await database.run(() => checkLedger())).entries).toBe(0)
  })

  it("an entry of an unknown account, and a line of a ledger account outside the chart", async () => {
    const id = await account()
    const entry = (owner: string, ledgerAccount: string) =>
      refusal(
        (sql) => sql`
          WITH e AS (INSERT INTO ledger_entry (account_id, livemode, id, event, idempotency_key, effective_on, occurred_on, line_count) VALUES (${owner}, false, 'le_of', 'paid', 'of', now(), now(), 2))
          INSERT INTO ledger_line (account_id, livemode, entry_id, line_no, ledger_account, currency, amount_kobo, effective_on)
          VALUES (${owner}, false, 'le_of', 1, 'clearing', 'NGN', 500, now()), (${owner}, false, 'le_of', 2, ${ledgerAccount}, 'NGN', -500, now())`,
      )
    expect(await entry("acct_nobody", "deferred_revenue")).toBe("ledger_entry_has_account")
    expect(await entry(id, "petty_cash")).toBe("ledger_line_has_account")
    expect((await database.run(() => checkLedger())).entries).toBe(0)
  })

  it("a foreign currency", async () => {
    const id = await account()
    expect(
      await refusal(
        (sql) => sql`
          WITH e AS (INSERT INTO ledger_entry (account_id, livemode, id, event, idempotency_key, effective_on, occurred_on, line_count) VALUES (${id}, false, 'le_usd', 'paid', 'usd', now(), now(), 2))
          INSERT INTO ledger_line (account_id, livemode, entry_id, line_no, ledger_account, currency, amount_kobo, effective_on)
          VALUES (${id}, false, 'le_usd', 1, 'clearing', 'USD', 5, now()), (${id}, false, 'le_usd', 2, 'deferred_revenue', 'USD', -5, now())`,
      ),
    ).toBe("ledger_line_currency_ngn")
  })

  it("lines added later, single or in balanced pairs", async () => {
    const id = await account()
    await database.write((unit) => postEntries(unit, [bookEntry(id)]))
    const later = (first: number) =>
      refusal(
        (sql) => sql`
          INSERT INTO ledger_line (account_id, livemode, entry_id, line_no, ledger_account, currency, amount_kobo, effective_on)
          SELECT account_id, livemode, id, ${first}::int + n, 'clearing', 'NGN', CASE n WHEN 0 THEN 7 ELSE -7 END, effective_on
          FROM ledger_entry, generate_series(0, 1) n WHERE account_id = ${id}`,
      )
    expect(await later(3)).toBe("ledger_line_arrives_with_entry")
    expect(await later(1)).toBe("ledger_line_pkey")
  })

  it("an entry without its lines, and lines without an entry", async () => {
    const id = await account()
    expect(
      await refusal(
        (sql) =>
          sql`INSERT INTO ledger_entry (account_id, livemode, id, event, idempotency_key, effective_on, occurred_on, line_count) VALUES (${id}, false, 'le_bare', 'paid', 'bare', now(), now(), 2)`,
      ),
    ).toBe("ledger_line_arrives_with_entry")
    expect(
      await refusal(
        (sql) => sql`
          INSERT INTO ledger_line (account_id, livemode, entry_id, line_no, ledger_account, currency, amount_kobo, effective_on)
          VALUES (${id}, false, 'le_none', 1, 'clearing', 'NGN', 5, now()), (${id}, false, 'le_none', 2, 'clearing', 'NGN', -5, now())`,
      ),
    ).toBe("ledger_line_has_entry")
  })

  it("changes, deletions and truncation", async () => {
    const id = await account()
    await database.write((unit) => postEntries(unit, [bookEntry(id)]))
    for (const statement of [
      "UPDATE ledger_line SET amount_kobo = amount_kobo * 2",
      "UPDATE ledger_entry SET event = 'other'",
      "DELETE FROM ledger_line",
      "DELETE FROM ledger_entry",
      "TRUNCATE ledger_line",
      "TRUNCATE ledger_entry CASCADE",
      "UPDATE ledger_account SET name = 'x'",
    ]) {
      expect(await refusal((sql) => sql.unsafe(statement).unprepared), statement).toBe("ledger_append_only")
    }
  })

  it("the same fact twice", async () => {
    const id = await account()
    const twice = bookEntry(id, { idempotencyKey: "once" })
    await database.write((unit) => postEntries(unit, [twice]))
    expect(
      await refusal((sql) => sql.withTransaction(Effect.map(unitOfWork, (unit) => postEntries(unit, [twice])))),
    ).toBe("ledger_entry_posted_once")
  })
})

describe("finance.trial_balance", () => {
  it("sums to zero for each account and environment", async () => {
    const id = await account()
    await database.write((unit) => postEntries(unit, [bookEntry(id), bookEntry(id, { livemode: true })]))
    const rows = await database.run(
      (sql) => sql<{ livemode: boolean; ledger_account: string; balance_kobo: number }>`
        SELECT livemode, ledger_account, balance_kobo FROM finance.trial_balance WHERE account_id = ${id} ORDER BY 1, 2`,
    )
    expect(rows).toEqual([
      { livemode: false, ledger_account: "clearing", balance_kobo: 500 },
      { livemode: false, ledger_account: "one_off_revenue", balance_kobo: -500 },
      { livemode: true, ledger_account: "clearing", balance_kobo: 500 },
      { livemode: true, ledger_account: "one_off_revenue", balance_kobo: -500 },
    ])
  })
})
