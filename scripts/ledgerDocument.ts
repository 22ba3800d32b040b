/** Generates parts of docs/ledger.md, from the current document and an installation without books. */
import { Effect, Redacted, Struct } from "effect"
import pg from "pg"
import { poolLayer } from "../src/db/database.ts"
import { type EntryEvent, type FactsOf, linesOf, POSTINGS } from "../src/ledger/postings.ts"
import { payOut } from "./payOut.ts"
import { caller, namesOf, playStory, type StoryObjects } from "./story.ts"

export interface Installation {
  readonly origin: string
  /** A secret key of the sandbox of {@link account}. */
  readonly key: string
  readonly account: string
  /** The address of the database. */
  readonly url: string
}

/** How many rows of a result are shown. */
const MAX_ROWS = 20

const SALE: FactsOf<"paid"> = {
  lines: [
    { type: "plan", description: "Plan", quantity: 1, unit_amount: 1_075_000, amount: 1_075_000 },
    { type: "overage", description: "Usage", quantity: 10, unit_amount: 2_150, amount: 21_500 },
  ],
  customerId: "cus_ada",
  rail: "paystack",
  vatBps: 750,
}
const MONEY = { amountKobo: 1_075_000, rail: "paystack", customerId: "cus_ada" }
const DEPOSIT = { ...MONEY, planId: "SB-ADA" }
const INVOICE = { amountKobo: 537_500, merchant: "acct_fit_lagos", vatKobo: 37_500 }

/** Facts for each rule: a gym of ₦10,000.00 and ten units of ₦20.00, both plus 7.5 % VAT. */
const EXAMPLES: { readonly [E in EntryEvent]: FactsOf<E> } = {
  paid: SALE,
  owed: SALE,
  overdue_paid: SALE,
  waived: { ...SALE, lines: [{ type: "plan", description: "Plan", quantity: 1, unit_amount: 99, amount: 99 }] },
  written_off: { ...SALE, unserved: { netKobo: 666_667, vatKobo: 50_000 } },
  recognised: { recognisedKobo: 33_333 },
  service_ended: { recognisedKobo: 666_667 },
  service_paused: { recognisedKobo: 16_667 },
  service_resumed: { recognisedKobo: 666_667 },
  service_delivered: { recognisedKobo: 1_000_000 },
  refund_due: MONEY,
  excess: { ...MONEY, amountKobo: 50_000 },
  contradicted: MONEY,
  verification: { ...MONEY, amountKobo: 5_000 },
  refunded: { ...MONEY, amountKobo: 5_000 },
  settled: { rail: "paystack", payout: "RV-1", amountKobo: 1_096_500, feeKobo: 26_448, paidOutKobo: 1_070_052 },
  explained: { as: "rail_fees", amountKobo: 10_000, rail: "paystack", payout: "RV-1", customerId: "cus_ada" },
  deposit_paid: DEPOSIT,
  goods_delivered: { ...DEPOSIT, vatKobo: 75_000 },
  deposit_cancelled: { ...DEPOSIT, feeKobo: 100_000 },
  invoiced: INVOICE,
  invoice_paid: INVOICE,
  invoice_voided: INVOICE,
}

const naira = (kobo: number): string =>
  (kobo / 100).toLocaleString("en-NG", { minimumFractionDigits: 2, maximumFractionDigits: 2 })

const example = <E extends EntryEvent>(event: E): string =>
  linesOf(event, EXAMPLES[event])
    .map(({ account, amountKobo }) => `${amountKobo > 0 ? "Dr" : "Cr"} ${account} ${naira(Math.abs(amountKobo))}`)
    .join("<br>")

const table = (names: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string =>
  [names, names.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n")

const postings = (): string =>
  table(
    ["entry", "what happened", "in the books"],
    Struct.keys(POSTINGS).map((event) => [`\`${event}\``, POSTINGS[event].meaning, example(event)]),
  )

/** Formats a result like psql. */
const formatResult = (
  { fields, rows }: pg.QueryArrayResult<Array<string | null>>,
  toNames: (text: string) => string,
): string => {
  const cells = rows.slice(0, MAX_ROWS).map((row) => row.map((value) => (value === null ? "" : toNames(value))))
  const isNumber = fields.map((_, n) => cells.length > 0 && cells.every((row) => /^-?[\d.]*$/.test(row[n]!)))
  const widths = fields.map(({ name }, n) => Math.max(name.length, ...cells.map((row) => row[n]!.length)))
  const line = (row: ReadonlyArray<string>) =>
    row
      .map((value, n) => (isNumber[n] ? value.padStart(widths[n]!) : value.padEnd(widths[n]!)))
      .join(" | ")
      .trimEnd()
  const count = `(${rows.length} row${rows.length === 1 ? "" : "s"}${rows.length > MAX_ROWS ? `, the first ${MAX_ROWS} shown` : ""})`
  return [
    line(fields.map(({ name }) => name)),
    widths.map((width) => "-".repeat(width)).join("-+-"),
    ...cells.map(line),
    count,
  ].join("\n")
}

/** Names for IDs, which differ in each run. */
const naming = async (client: pg.Client, account: string, played: StoryObjects) => {
  const names = new Map([[account, "acct_fit_lagos"], ...namesOf(played)])
  const charges = await client.query<{ id: string; customer_id: string; day: string }>(
    "SELECT id, customer_id, to_char(created_at AT TIME ZONE 'UTC', 'MMDD') AS day FROM charge",
  )
  for (const { id, customer_id, day } of charges.rows)
    names.set(id, `chg_${played.customers.get(customer_id)!.toLowerCase()}_${day}`)
  return {
    /** Replaces IDs with the document's names. */
    toNames: (text: string): string =>
      text.replaceAll(/\b[a-z]+_[0-9a-z]{26}\b/g, (id) => names.get(id) ?? `${id.slice(0, id.indexOf("_"))}_…`),
    /** Replaces the document's names with IDs. */
    toIds: (text: string): string => {
      let all = text
      for (const [id, name] of names) all = all.replaceAll(`'${name}'`, `'${id}'`)
      return all
    },
  }
}

const asReader = async (
  client: pg.Client,
  account: string,
  text: string,
): Promise<pg.QueryArrayResult<Array<string | null>>> => {
  await client.query("BEGIN READ ONLY")
  await client.query("SET LOCAL role = 'finance_reader'")
  await client.query(`SET LOCAL billing.account = '${account}'`)
  const found = await client.query<Array<string | null>>({ text, rowMode: "array" })
  await client.query("ROLLBACK")
  return found
}

const between = (document: string, name: string, text: string): string => {
  const [open, close] = [`<!-- ${name} -->`, `<!-- /${name} -->`]
  const [from, to] = [document.indexOf(open), document.indexOf(close)]
  if (from === -1 || to === -1) throw new Error(`docs/ledger.md has no part ${name}.`)
  return `${document.slice(0, from + open.length)}\n\n${text}\n\n${document.slice(to)}`
}

/** A block of SQL, and the block with its result if there is one. */
const QUERY = /```sql\n([\s\S]*?)```\n(?:\n```text\n[\s\S]*?```\n)?/g

/** Plays the story on an installation, and returns the document with all generated parts. */
export const ledgerDocument = async (
  document: string,
  { origin, key, account, url }: Installation,
): Promise<string> => {
  const played = await playStory(caller(origin, key), () => {})
  const client = new pg.Client({ connectionString: url, types: { getTypeParser: () => (value: string) => value } })
  await client.connect()
  try {
    await Effect.runPromise(Effect.provide(payOut(account), poolLayer(Redacted.make(url), 1)))
    const { toNames, toIds } = await naming(client, account, played)
    const chart = await asReader(
      client,
      account,
      "SELECT ledger_account, name, kind FROM finance.chart_of_accounts ORDER BY array_position(ARRAY['asset', 'liability', 'revenue', 'expense'], kind), ledger_account",
    )
    const views = await asReader(
      client,
      account,
      `
      SELECT 'finance.' || c.relname, obj_description(c.oid) FROM pg_class c WHERE c.relnamespace = 'finance'::regnamespace AND c.relkind = 'v' ORDER BY c.relname`,
    )
    let written = between(
      document,
      "chart",
      table(
        ["ledger account", "name", "kind"],
        chart.rows.map(([code, name, kind]) => [`\`${code}\``, name!, kind!]),
      ),
    )
    written = between(written, "postings", postings())
    written = between(
      written,
      "views",
      table(
        ["view", "what it shows"],
        views.rows.map(([name, comment]) => [`\`${name}\``, comment!]),
      ),
    )
    const queries = [...written.matchAll(QUERY)]
    for (const [whole, query] of queries) {
      const found = await asReader(client, account, toIds(query!))
      written = written.replace(
        whole,
        () => `\`\`\`sql\n${query}\`\`\`\n\n\`\`\`text\n${formatResult(found, toNames)}\n\`\`\`\n`,
      )
    }
    return written
  } finally {
    await client.end()
  }
}
