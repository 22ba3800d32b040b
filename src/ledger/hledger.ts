/** Writes the books as an hledger journal (hledger.org): one transaction for each entry, every account declared before its use. Pure. */
import { CURRENCY, inNaira } from "../base/money.ts"
import type { LedgerAccount } from "./chart.ts"
import type { ExportedLine, Writer } from "./exported.ts"

/** hledger's top-level account and report type of each kind of account. */
const ROOTS: Readonly<Record<string, readonly [root: string, type: string]>> = {
  asset: ["assets", "A"],
  liability: ["liabilities", "L"],
  revenue: ["revenues", "R"],
  expense: ["expenses", "X"],
}
/** The account that hledger reports as cash. */
const CASH: LedgerAccount = "bank"

/** Ledger accounts whose detail becomes a tag, because its values are too many for sub-accounts. A rail becomes a sub-account. */
const DETAIL_TAGS: Readonly<Partial<Record<string, string>>> = {
  bank: "payout",
  receivable: "customer",
  refunds_payable: "customer",
  buyer_deposits: "instalment_plan",
} satisfies Partial<Record<LedgerAccount, string>>

const HEAD = `; The books of the billing service: hledger check --strict ordereddates
commodity ${CURRENCY} 1000.00  ; naira
`

/** Returns a text on one line, with single spaces and without the characters that end a name, a tag or a comment in hledger. */
const plain = (text: string): string =>
  text
    .toWellFormed()
    .replaceAll(/[:;,|\s\p{C}\p{Z}]+/gu, " ")
    .trim()

/** Returns merchants' names by account, with the account's ID if another merchant has the same name. */
const titlesOf = (names: ReadonlyMap<string, string>): ReadonlyMap<string, string> => {
  const all = [...names].map(([account, name]) => [account, plain(name)] as const)
  const sameName = Map.groupBy(all, ([, name]) => name.toLowerCase())
  return new Map(
    all.map(([account, name]) => {
      const isUnique = name !== "" && sameName.get(name.toLowerCase())!.length === 1
      return [account, isUnique ? name : `${name} (${account})`.trim()]
    }),
  )
}

const tagsOf = (tags: Readonly<Record<string, string | null>>): string =>
  Object.entries(tags)
    .flatMap(([name, value]) => (value === null ? [] : [`${name}:${plain(value)}`]))
    .join(", ")

/** Starts a journal. Each batch continues after the one before. */
export const hledger = (names: ReadonlyMap<string, string>): Writer => {
  const titles = titlesOf(names)
  const declared = new Set<string>()

  const accountOf = ({ account_id, livemode, kind, ledger_account, detail }: ExportedLine): string => {
    const title = titles.get(account_id) ?? account_id
    const rail = detail !== null && DETAIL_TAGS[ledger_account] === undefined ? [plain(detail)] : []
    return [ROOTS[kind]![0], title, livemode ? "live" : "sandbox", ledger_account, ...rail].join(":")
  }

  const declarationOf = (line: ExportedLine): string => {
    const account = accountOf(line)
    if (declared.has(account)) return ""
    declared.add(account)
    return `account ${account}  ; type:${line.ledger_account === CASH ? "C" : ROOTS[line.kind]![1]}\n`
  }

  const postingOf = (line: ExportedLine): string => {
    const name = DETAIL_TAGS[line.ledger_account]
    const isRepeated = name === "customer" && line.detail === line.customer_id
    const tag = name === undefined || isRepeated ? "" : tagsOf({ [name]: line.detail })
    return `    ${accountOf(line)}  ${line.currency} ${inNaira(line.amount_kobo)}${tag === "" ? "" : `  ; ${tag}`}\n`
  }

  const transactionOf = (lines: ReadonlyArray<ExportedLine>): string => {
    const [first] = lines as readonly [ExportedLine, ...ReadonlyArray<ExportedLine>]
    const tags = tagsOf({
      entry: first.entry_id,
      customer: first.customer_id,
      subscription: first.subscription_id,
      charge: first.charge_id,
      plan: first.plan_id,
      corrects: first.corrects,
      occurred: first.occurred_on === first.effective_on ? null : first.occurred_on,
      reason: first.reason,
    })
    return `\n${first.effective_on} ${first.event}  ; ${tags}\n${lines.map(postingOf).join("")}`
  }

  return {
    head: HEAD,
    body: (lines) => {
      const declarations = lines.map(declarationOf).join("")
      const entries = [...Map.groupBy(lines, ({ entry_id }) => entry_id).values()]
      return `${declarations === "" ? "" : `\n${declarations}`}${entries.map(transactionOf).join("")}`
    },
  }
}
