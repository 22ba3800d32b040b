/** Renders the pages of settlements: uploading a rail's file, what it books, and suspense. */
import type { InSuspense } from "../../ledger/accountBooks.ts"
import type { ImportRow } from "../../ledger/imports.ts"
import { EXPLANATION_ACCOUNTS } from "../../ledger/postings.ts"
import { type Html, html } from "../html.ts"
import { errorSummary, type Field, fieldRow, hiddenField, type Typed, type Wrong } from "./fields.ts"
import {
  empty,
  facts,
  naira,
  notice,
  type Pages,
  pageHead,
  pager,
  section,
  status,
  table,
  when,
  words,
} from "./parts.ts"

interface Exception {
  readonly about: string | null
  readonly path: string | null
  readonly kobo: number | null
  readonly day: string | null
}

export interface SettlementsView {
  readonly base: string
  readonly isSandbox: boolean
  readonly rails: ReadonlyArray<string>
  readonly wrong: Wrong
  readonly formToken: string
  readonly imports: ReadonlyArray<ImportRow>
  readonly suspense: ReadonlyArray<InSuspense>
  readonly exceptions: ReadonlyArray<Exception>
  readonly pages: Pages
}

/** Names of rails as people write them. */
const RAIL_NAMES: Readonly<Record<string, string>> = {
  simulator: "Simulated rail",
  paystack: "Paystack",
  flutterwave: "Flutterwave",
}

const railName = (rail: string): string => RAIL_NAMES[rail] ?? rail

const UPLOAD_FIELDS: ReadonlyArray<Field> = [
  { name: "rail", label: "Payment rail", kind: "select", isRequired: true },
  { name: "file", label: "Settlement file", kind: "text", isRequired: true },
]

const uploadForm = ({ base, rails, wrong, formToken, isSandbox }: SettlementsView): Html => {
  const [railField] = UPLOAD_FIELDS
  const error = wrong.get("file")
  const choices = rails.map((value) => ({ value, label: railName(value) }))
  return html`<form method="post" enctype="multipart/form-data" action="${`${base}/settlements`}" class="form upload"><div class="card stack"><h2>Book a payout</h2>
<p>Download the settlement file (CSV) at your payment rail and choose it here. Each payment is matched by its reference, and its fee and payout are booked. You see what it does before anything is booked, and a payment is never booked twice.</p>
${isSandbox && html`<p class="quiet">In the sandbox no money moves: write a file with the columns Reference, Amount, Fees, and the IDs of test charges as references, to see what a live one does.</p>`}${errorSummary(UPLOAD_FIELDS, wrong, null)}${hiddenField("form_token", formToken)}${fieldRow({ ...railField!, choices }, new Map(), wrong)}<div class="field"><label for="field-file">Settlement file</label> <p class="hint" id="field-file-hint">CSV, at most 10 MB and 20,000 rows</p><input id="field-file" name="file" type="file" accept=".csv,text/csv" required="${true}" aria-describedby="${error === undefined ? "field-file-hint" : "field-file-hint field-file-error"}" aria-invalid="${error === undefined ? null : "true"}">${
    error !== undefined &&
    html`<span class="wrong" id="field-file-error"><span class="unseen">Error: </span>${error}</span>`
  }</div><p class="actions"><button class="button">Look at it</button></p></div></form>
`
}

/** Says which way an amount in suspense goes. */
const suspenseText = (kobo: number): string =>
  kobo > 0 ? `${naira(kobo)} too little was paid out` : `${naira(-kobo)} too much was paid out`

const suspenseList = ({ base, suspense }: SettlementsView): Html | false =>
  suspense.length > 0 &&
  section(
    "In suspense",
    html`<p class="quiet">Payouts that the books do not explain. Find out why, and explain each: the reason is kept.</p>${table(
      "In suspense",
      [
        { name: "Reference", cell: ({ reference }: InSuspense) => html`<code>${reference}</code>` },
        { name: "Rail", cell: ({ rail }) => railName(rail) },
        { name: "Since", cell: ({ since }) => since },
        { name: "What", cell: ({ amount_kobo }) => suspenseText(amount_kobo) },
        {
          name: "What to do",
          cell: ({ reference }) =>
            html`<a class="act" href="${`${base}/settlements/suspense/${reference}`}">Explain</a>`,
        },
      ],
      suspense,
    )}`,
  )

const exceptionList = ({ exceptions }: SettlementsView): Html | false =>
  exceptions.length > 0 &&
  section(
    "Where the rail contradicts the books",
    table(
      "Where the rail contradicts the books",
      [
        {
          name: "Charge",
          cell: ({ about, path }: Exception) =>
            path === null ? (about ?? "–") : html`<a href="${path}"><code>${about}</code></a>`,
        },
        { name: "Day", cell: ({ day }) => html`<span class="whole">${day ?? "–"}</span>` },
        { name: "Amount", cell: ({ kobo }) => (kobo === null ? "–" : naira(kobo)), isNumber: true },
      ],
      exceptions,
    ),
  )

export const settlementsMain = (view: SettlementsView): Html => {
  const { base, imports, pages } = view
  return html`${pageHead("Settlements", "What payment rails paid out to your bank.")}${uploadForm(view)}${suspenseList(view)}${exceptionList(view)}${section(
    "Files until now",
    imports.length === 0
      ? empty("No files yet", "Upload the first settlement file above.")
      : html`${table(
          "Files until now",
          [
            {
              name: "File",
              cell: ({ id, file_name }: ImportRow) => html`<a href="${`${base}/settlements/${id}`}">${file_name}</a>`,
            },
            { name: "Rail", cell: ({ rail }) => railName(rail) },
            {
              name: "State",
              cell: ({ booked_at }) => (booked_at === null ? status("waits for you") : when(booked_at)),
            },
            { name: "Matched", cell: ({ matched, rows }) => `${matched} of ${rows}` },
            { name: "Paid out", cell: ({ payouts_kobo }) => naira(payouts_kobo), isNumber: true },
          ],
          imports,
        )}${pager(pages)}`,
  )}`
}

const REASONS: Readonly<Record<string, string>> = {
  unknown_reference: "Your books have no payment with this reference",
  other_rail: "Another rail took this payment",
  amount_differs: "The amount differs: the difference goes to suspense",
  payout_differs: "The payout is not the amount less the fee: the difference goes to suspense",
  booked_otherwise: "It was booked before with another fee or payout, which stays",
  dated_before_payment: "It is dated long before the payment",
  duplicate: "An earlier row has it",
  not_paid_out: "Not paid out yet",
  not_deducted: "Sent back after the payout, not deducted yet",
}

interface ImportView {
  readonly base: string
  readonly row: ImportRow
  readonly formToken: string
}

const confirmForm = ({ base, row, formToken }: ImportView): Html =>
  html`<form method="post" action="${`${base}/settlements/${row.id}/book`}" class="form"><div class="card stack"><h2>What this does</h2><p class="amount">${row.booked} ${row.booked === 1 ? "entry is" : "entries are"} booked.</p><p>The payouts are booked at the bank, the fees as rail fees, and what does not add up goes to suspense. Entries are never deleted: a mistake is corrected by another entry.</p>${hiddenField("form_token", formToken)}<p class="actions"><button class="button">Book this file</button></p></div></form>
`

export const importMain = (view: ImportView): Html => {
  const { base, row } = view
  const isWaiting = row.booked_at === null
  return html`${pageHead(row.file_name, isWaiting ? "Nothing is booked yet." : html`Booked ${when(row.booked_at)}`)}${facts(
    [
      ["Payment rail", railName(row.rail)],
      ["Rows", row.rows.toLocaleString("en")],
      ["Match", row.matched.toLocaleString("en")],
      ["Do not match", row.unmatched_count.toLocaleString("en")],
      [isWaiting ? "Entries to be booked" : "Entries booked", row.booked.toLocaleString("en")],
      ["Fees", naira(row.fees_kobo)],
      ["Paid out", naira(row.payouts_kobo)],
      ["Uploaded", html`${when(row.uploaded_at)} by ${row.uploaded_by}`],
      ["SHA-256 of the file", html`<code>${row.sha256}</code>`],
    ],
  )}${isWaiting && section("Book it", confirmForm(view))}${
    row.unmatched.length > 0 &&
    section(
      "What does not match",
      html`${table(
        "What does not match",
        [
          {
            name: "Reference",
            cell: ({ reference }: ImportRow["unmatched"][number]) => html`<code>${reference}</code>`,
          },
          { name: "Row", cell: (one) => one.row ?? "–" },
          { name: "Why", cell: ({ reason }) => REASONS[reason] ?? words(reason) },
          { name: "Amount", cell: ({ amount_kobo }) => naira(amount_kobo), isNumber: true },
        ],
        row.unmatched,
      )}${
        row.unmatched_count > row.unmatched.length &&
        notice("note", html`<p>The first ${row.unmatched.length} of ${row.unmatched_count} are shown.</p>`)
      }`,
    )
  }<p class="section"><a href="${`${base}/settlements`}">All settlements</a></p>`
}

const ACCOUNT_TEXTS: Readonly<Record<(typeof EXPLANATION_ACCOUNTS)[number], string>> = {
  rail_fees: "Rail fees: the rail kept it",
  refunds_payable: "Refunds payable: it is owed to the customer, or was sent back to them",
  bad_debt: "Bad debt: it is lost",
  bank: "Bank: it came or left by another payout",
}

const EXPLAIN_FIELDS: ReadonlyArray<Field> = [
  {
    name: "as",
    label: "What it was",
    kind: "select",
    isRequired: true,
    choices: EXPLANATION_ACCOUNTS.map((value) => ({ value, label: ACCOUNT_TEXTS[value] })),
  },
  { name: "reason", label: "Reason", kind: "textarea", isRequired: true, maxlength: 500 },
]

interface ExplainView {
  readonly base: string
  readonly path: string
  readonly formToken: string
  readonly found: InSuspense
  readonly typed: Typed
  readonly wrong: Wrong
}

export const explainMain = ({ base, path, formToken, found, typed, wrong }: ExplainView): Html =>
  html`${pageHead("Explain suspense", html`<code>${found.reference}</code>`)}${facts([
    ["What", suspenseText(found.amount_kobo)],
    ["Rail", railName(found.rail)],
    ["Since", found.since],
  ])}<form method="post" action="${path}" class="form section"><div class="card stack">${errorSummary(EXPLAIN_FIELDS, wrong, null)}${hiddenField("form_token", formToken)}${EXPLAIN_FIELDS.map((field) => fieldRow(field, typed, wrong))}<p>One entry moves ${naira(Math.abs(found.amount_kobo))} from suspense to this account, with your reason. It cannot be deleted.</p><p class="actions"><button class="button">Book the explanation</button></p></div></form>
<p class="section"><a href="${`${base}/settlements`}">Back without doing this</a></p>`
