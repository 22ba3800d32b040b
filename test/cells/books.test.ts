/** Tests the books of an account that moves: its closed months, and its debt for the service. */
import { describe, expect, it } from "vitest"
import { dayOf } from "../../src/base/time.ts"
import { postEntries } from "../../src/ledger/ledger.ts"
import { bookEntry } from "../support/books.ts"
import { type Side, useCells } from "../support/cells.ts"

const { databases, commandLines, createMerchant, move } = useCells()

/** Returns the standard output of a command that succeeds, otherwise its error output. */
const run = async (side: Side, ...args: ReadonlyArray<string>) => {
  const { code, output, errors } = await commandLines[side](...args, "--json")
  return code === 0 ? JSON.parse(output) : errors
}

const SOUND = { ok: true, problems: [] }
const checks = async () => [await run(0, "ledger", "check"), await run(1, "ledger", "check")]

/** The merchant's debt by its invoices and by the service's own books, as one cell stores it. */
const feesOwed = (side: Side, merchant: string) =>
  databases[side].run(
    (sql) => sql`SELECT invoices_kobo, books_kobo, has_moved FROM finance.fees_owed WHERE merchant = ${merchant}`,
  )

describe("an account", () => {
  it("moves its books to a younger cell, and leaves there the amount it owed for the service", async () => {
    const { account } = await createMerchant("Moves with its books")
    const sale = (year: number, month: number) =>
      bookEntry(account.id, { livemode: true, day: dayOf(Date.UTC(year, month, 1)) })
    await databases[0].write((unit) => postEntries(unit, [sale(2025, 0), sale(2025, 1), sale(2025, 2)]))
    await databases[0].run((sql) => sql`UPDATE account SET created_at = '2025-01-01' WHERE id = ${account.id}`)
    const [invoice] = await run(0, "invoice", "run", "--account", account.id, "--period", "2025-03")
    const owed = invoice.total
    expect(owed).toBeGreaterThan(0)
    expect(await feesOwed(0, account.id)).toEqual([{ invoices_kobo: owed, books_kobo: owed, has_moved: false }])
    // The account's first cell closes its months one after the other. The other cell is new.
    for (const month of ["2025-01", "2025-02", "2025-03"]) await run(0, "ledger", "close", "--through", month)
    await run(1, "ledger", "close", "--through", "2025-03")

    // During the move its home is still the first cell.
    expect((await move(account.id, 0, "compared")).code).toBe(null)
    expect(await checks()).toMatchObject([SOUND, SOUND])
    expect(await run(1, "journal", "replay")).toMatchObject({ differing: [] })
    expect((await commandLines[1]("ledger", "export", "--format", "csv")).output).not.toContain(account.id)
    for (const side of [0, 1] as const) {
      expect(await run(side, "ledger", "close", "--through", "2025-03")).toContain(
        `${account.id} is on its way between cells`,
      )
      expect(await run(side, "ledger", "reopen", "2025-02", "--reason", "x")).toContain("finish that move")
      expect(await run(side, "secrets", "rotate")).toContain(`none of ${account.id}, on its way`)
    }

    expect((await move(account.id, 0)).errors).toBe("")
    expect(await checks()).toMatchObject([SOUND, SOUND])
    expect(await feesOwed(0, account.id)).toEqual([{ invoices_kobo: 0, books_kobo: owed, has_moved: true }])
    expect(await feesOwed(1, account.id)).toEqual([{ invoices_kobo: owed, books_kobo: 0, has_moved: true }])
    await run(1, "invoice", "pay", invoice.id)
    expect(await feesOwed(1, account.id)).toEqual([{ invoices_kobo: 0, books_kobo: -owed, has_moved: true }])

    expect(await run(1, "ledger", "reopen", "2025-03", "--reason", "A sale was missing")).toMatchObject({
      closed_through: "2025-02",
    })
    expect(await checks()).toMatchObject([SOUND, SOUND])
    await databases[1].write((unit) => postEntries(unit, [sale(2025, 2)]))
    expect(await run(1, "ledger", "close", "--through", "2025-03")).toMatchObject({ closed_through: "2025-03" })
    expect(await checks()).toMatchObject([SOUND, SOUND])
    const months = await databases[1].run(
      (sql) => sql`
        SELECT to_char(month, 'YYYY-MM') AS month, debit_kobo FROM ledger_total
        WHERE account_id = ${account.id} AND ledger_account = 'clearing' ORDER BY 1`,
    )
    expect(months).toEqual([
      { month: "2025-01", debit_kobo: 500 },
      { month: "2025-02", debit_kobo: 500 },
      { month: "2025-03", debit_kobo: 1_000 },
    ])
  })
})
