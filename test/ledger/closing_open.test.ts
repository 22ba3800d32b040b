/** Tests that a month with open items is closed only if a person accepts them for a reason (decision Q10). */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, it } from "vitest"
import { useCommandLine } from "../support/commandLine.ts"
import { useOwnInstance } from "../support/instance.ts"
import { advance, data, subscribe } from "../support/story.ts"

const { api, database, accountId } = useOwnInstance()
const folder = mkdtempSync(join(tmpdir(), "recurring-billing-open-"))
afterAll(() => rmSync(folder, { recursive: true }))

const [command, other] = [useCommandLine(database), useCommandLine(database)]
const cli = async (...args: ReadonlyArray<string>) => {
  const { code, output, errors } = await command("ledger", ...args, "--json")
  return { code, errors, document: output === "" ? undefined : JSON.parse(output) }
}
const close = (month: string, ...args: ReadonlyArray<string>) => cli("close", "--through", month, ...args)
const closings = () =>
  database.run(
    (sql) => sql`SELECT action, to_char(month, 'YYYY-MM') AS month, reason FROM finance.closings ORDER BY no`,
  )

const settle = (...rows: ReadonlyArray<string>) => {
  const path = join(folder, `${Math.random()}.csv`)
  writeFileSync(path, ["Reference,Amount,Fees,Amount Due,Settlement Date,Settlement ID", ...rows].join("\n"))
  return cli("settle", "--rail", "simulator", "--file", path)
}

it("names open items, closes after they are settled, and stores the reason of a forced closing", async () => {
  const { clock, id } = await subscribe(api, "2025-01-10T00:00:00Z", "pm_test_success")
  await advance(api, clock, "2025-02-11T00:00:00Z")
  const charges = data(await api.get(`/charges?subscription=${id}`)) as ReadonlyArray<{
    id: string
    period_start: string
  }>
  const [february, january] = charges.map((charge) => charge.id) as [string, string]
  await settle(`${january},5000,75,4825,2025-01-12,P1`, `${february},5000,75,4725,2025-02-12,P2`)

  const refused = await close("2025-01")
  expect([refused.code, refused.document]).toEqual([1, undefined])
  expect(refused.errors).toBe(
    `The books have open items through 2025-01: 10000 kobo of ${january} are in suspense (suspense of ${accountId()}, 2025-01). finance.exceptions lists them. Settle them, or close with --accept REASON.\n`,
  )
  expect(await closings()).toEqual([])
  await settle(`${january},100,0,100,2025-01-31,P3`)
  expect(await close("2025-01")).toMatchObject({ code: 0, document: { closed_through: "2025-01" } })

  // Closed months are not checked again. Later ones are.
  expect((await close("2025-01")).code).toBe(0)
  expect((await close("2025-03")).errors).toContain(`20000 kobo of ${february} are in suspense`)
  expect((await close("2025-03", "--accept", " ")).code).toBe(2)
  expect((await close("2025-03", "--accept", "x".repeat(501))).code).toBe(2)
  const accepted = await close("2025-03", "--accept", "The rail pays in April")
  expect(accepted).toMatchObject({
    code: 0,
    document: {
      closed_through: "2025-03",
      closings: [{ action: "close", month: "2025-03", reason: "The rail pays in April" }, {}],
    },
  })
  expect(await closings()).toEqual([
    { action: "close", month: "2025-01", reason: null },
    { action: "close", month: "2025-03", reason: "The rail pays in April" },
  ])
  // It stays open in its month, and no later month waits for it.
  expect((await close("2025-04")).code).toBe(0)
})

it("is refused for breaches without a month, and for rails' exceptions in the month, of any account", async () => {
  const { id, clock } = await subscribe(api, "2025-05-01T00:00:00Z", "pm_test_success")
  await advance(api, clock, "2025-05-10T00:00:00Z")
  const [charge] = data(await api.get(`/charges?subscription=${id}`))
  const contradict = (word: string) =>
    database.run((sql) => sql`UPDATE charge SET contradictions = ${word}::jsonb WHERE id = ${charge.id}`)
  await contradict('[{"answer": "failed", "code": null, "at": "2025-05-03T00:00:00Z"}]')
  expect((await close("2025-05")).errors).toContain(`${charge.id}: 500000 kobo by the books, the rail says it failed`)
  await contradict('[{"answer": "failed", "code": null, "at": "2025-06-03T00:00:00Z"}]')
  await database.run((sql) => sql`UPDATE mrr_movement SET change_kobo = change_kobo + 1 WHERE subscription_id = ${id}`)
  expect((await close("2025-05")).errors).toContain(`(mrr of ${accountId()}, no month)`)
  await database.run((sql) => sql`UPDATE mrr_movement SET change_kobo = change_kobo - 1 WHERE subscription_id = ${id}`)
  expect((await close("2025-05")).code).toBe(0)
  await contradict("[]")
})

it("conflicts with a settlement read into the month at the same time, in either order", async () => {
  const { clock, id } = await subscribe(api, "2025-07-01T00:00:00Z", "pm_test_success")
  await advance(api, clock, "2025-07-02T00:00:00Z")
  const [charge] = data(await api.get(`/charges?subscription=${id}`))
  const path = join(folder, "race.csv")
  writeFileSync(path, `Reference,Amount,Fees,Settlement Date\n${charge.id},4900,0,2025-07-03`)
  const [settled, closed] = await Promise.all([
    other("ledger", "settle", "--rail", "simulator", "--file", path, "--json"),
    close("2025-07"),
  ])
  expect(settled.code).toBe(0)
  const [open] = await database.run(
    (sql) =>
      sql<{
        month: string
      }>`SELECT to_char(month, 'YYYY-MM') AS month FROM finance.suspense WHERE reference = ${charge.id}`,
  )
  // Closed first: the difference is in the next month. Read first: it blocks the closing.
  expect(open).toEqual({ month: closed.code === 0 ? "2025-08" : "2025-07" })
})
