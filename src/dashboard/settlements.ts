/** The pages of settlements: a rail's file is tried, confirmed and booked; what it leaves in suspense is explained (decision R8). */
import { createHash } from "node:crypto"
import { Effect } from "effect"
import { inNaira } from "../base/money.ts"
import { problem } from "../base/problem.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { readSuspense } from "../ledger/accountBooks.ts"
import { readOpenItems } from "../ledger/accountClosing.ts"
import { bookFile, findImport, keepFile, keepResult, readFile, readImports, tryFile } from "../ledger/imports.ts"
import { EXPLANATION_ACCOUNTS, type ExplanationAccount } from "../ledger/postings.ts"
import { explainHere } from "../ledger/suspense.ts"
import { NOTHING_TYPED, NOTHING_WRONG, type Wrong } from "../pages/dashboard/fields.ts"
import { explainMain, importMain, settlementsMain } from "../pages/dashboard/settlements.ts"
import { OUTSIDE_RAILS, type RailName } from "../rails/rail/Rail.ts"
import { changing } from "./account.ts"
import { csvFile } from "./csv.ts"
import type { Form } from "./forms.ts"
import { pathOfObject } from "./objects.ts"
import { goTo, memberPage, show, type Viewer, withNotice } from "./pages.ts"

const SETTLEMENTS = "/dashboard/:environment/settlements"
const FINANCE = { right: "finance" } as const

const SHOWN = 25
/** After all months: exceptions of any day are listed. */
const ANY_MONTH = "8999-12"

const readingOf = <A, E, R>({ tenant }: Viewer, work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(TenantDatabase, ({ reading }) => reading(tenant, work))

/** The rails whose files can be booked: in the sandbox there is only the simulated one. */
const railsOf = ({ tenant }: Viewer): ReadonlyArray<RailName> => (tenant.livemode ? OUTSIDE_RAILS : ["simulator"])

const showSettlements = Effect.fnUntraced(function* (viewer: Viewer, wrong: Wrong = NOTHING_WRONG, status = 200) {
  const { tenant, search, path, environment, base, formToken } = viewer
  const after = search.get("starting_after")
  const [imports, suspense, items] = yield* readingOf(
    viewer,
    Effect.all([readImports(tenant, after, SHOWN + 1), readSuspense, readOpenItems(tenant, ANY_MONTH)], {
      concurrency: "unbounded",
    }),
  )
  const rows = imports.slice(0, SHOWN)
  const view = {
    base,
    isSandbox: !tenant.livemode,
    rails: railsOf(viewer),
    wrong,
    formToken,
    imports: rows,
    suspense,
    exceptions: items
      .filter(({ kind }) => kind === "exception")
      .map((item) => ({ ...item, path: pathOfObject(item.about, environment) })),
    pages: {
      first: after === null ? null : path,
      next: imports.length > SHOWN ? `${path}?starting_after=${rows.at(-1)!.id}` : null,
      csv: `${base}/settlements.csv`,
    },
  }
  return show(viewer, "Settlements", settlementsMain(view), status)
})

const upload = Effect.fnUntraced(function* (viewer: Viewer, form: Form) {
  const { tenant, session, base } = viewer
  const rail = railsOf(viewer).find((one) => one === form.get("rail"))
  const { file } = form
  if (rail === undefined || file === undefined) {
    const wrong = new Map([file === undefined ? ["file", "Choose a file."] : ["rail", "Choose the payment rail."]])
    return yield* showSettlements(viewer, wrong as Wrong, 400)
  }
  const tried = yield* Effect.result(tryFile(tenant, rail, file.bytes))
  if (tried._tag === "Failure") {
    const { failure } = tried
    if (failure._tag !== "Problem" || failure.param !== "file") return yield* Effect.fail(failure)
    return yield* showSettlements(viewer, new Map([["file", failure.message]]), 400)
  }
  const { writing } = yield* TenantDatabase
  const kept = {
    rail,
    file_name: file.name,
    sha256: createHash("sha256").update(file.bytes).digest("hex"),
    uploaded_by: session.email,
    file: file.bytes,
    result: tried.success,
  }
  const id = yield* writing(tenant, keepFile(tenant, kept))
  return goTo(`${base}/settlements/${id}`)
})

const settlements = memberPage(
  SETTLEMENTS,
  { ...FINANCE, takesFile: true },
  { GET: (viewer) => showSettlements(viewer), POST: upload },
)

const settlementsFile = memberPage(`${SETTLEMENTS}.csv`, FINANCE, {
  GET: (viewer) =>
    csvFile(
      `settlements-${viewer.environment}`,
      ["id", "rail", "file", "booked", "rows", "matched", "unmatched", "fees_naira", "payouts_naira", "by"],
      (cursor) =>
        Effect.map(readingOf(viewer, readImports(viewer.tenant, cursor ?? null, SHOWN)), (rows) => ({
          rows,
          next: rows.length === SHOWN ? rows.at(-1)!.id : null,
        })),
      (row) => [
        row.id,
        row.rail,
        row.file_name,
        row.booked_at === null ? null : new Date(row.booked_at).toISOString(),
        row.rows,
        row.matched,
        row.unmatched_count,
        Number(inNaira(row.fees_kobo)),
        Number(inNaira(row.payouts_kobo)),
        row.uploaded_by,
      ],
    ),
})

const one = memberPage(`${SETTLEMENTS}/:id`, FINANCE, {
  GET: Effect.fnUntraced(function* (viewer) {
    const { tenant, params, base, formToken } = viewer
    const row = yield* readingOf(viewer, findImport(tenant, params.id!))
    if (row === undefined) return yield* problem("resource_missing", "There is no such settlement file.")
    return show(viewer, row.file_name, importMain({ base, row, formToken }))
  }),
})

const book = memberPage(`${SETTLEMENTS}/:id/book`, FINANCE, {
  POST: Effect.fnUntraced(function* (viewer) {
    const { tenant, params, base } = viewer
    const id = params.id!
    const file = yield* readingOf(viewer, readFile(tenant, id))
    const row = (yield* readingOf(viewer, findImport(tenant, id)))!
    const result = yield* bookFile(tenant, row.rail, file)
    const object = { kind: "settlement_import", id }
    yield* changing(viewer, "settlement.import", () => object, keepResult(tenant, id, result), tenant)
    return goTo(withNotice(`${base}/settlements/${id}`, "settlement_imported"))
  }),
})

const isAccount = (text: string): text is ExplanationAccount =>
  (EXPLANATION_ACCOUNTS as ReadonlyArray<string>).includes(text)

const showExplain = Effect.fnUntraced(function* (
  viewer: Viewer,
  { typed = NOTHING_TYPED, wrong = NOTHING_WRONG, status = 200 } = {},
) {
  const { params, base, path, formToken } = viewer
  const found = (yield* readingOf(viewer, readSuspense)).find(({ reference }) => reference === params.reference)
  if (found === undefined) return yield* problem("resource_missing", "Nothing of this reference is in suspense.")
  return show(viewer, "Explain suspense", explainMain({ base, path, formToken, found, typed, wrong }), status)
})

const explain = memberPage(`${SETTLEMENTS}/suspense/:reference`, FINANCE, {
  GET: (viewer) => showExplain(viewer),
  POST: Effect.fnUntraced(function* (viewer, form) {
    const { tenant, params, base } = viewer
    const [as, reason] = [form.get("as"), form.get("reason")]
    const wrong = new Map<string, string>()
    if (!isAccount(as)) wrong.set("as", "Choose an account.")
    if (reason === "" || reason.length > 500) wrong.set("reason", "Give the reason, in at most 500 characters.")
    if (!isAccount(as) || wrong.size > 0) return yield* showExplain(viewer, { typed: form.typed, wrong, status: 400 })
    const reference = params.reference!
    const work = Effect.gen(function* () {
      const done = yield* explainHere({ account: tenant.account_id, reference, as, reason })
      if (done.state === "explained") return done.explained
      return yield* problem("resource_missing", "Nothing of this reference is in suspense any more.")
    })
    const object = ({ entry }: { readonly entry: string }) => ({ kind: "ledger_entry", id: entry })
    const made = yield* changing(viewer, "suspense.explain", object, work, tenant)
    return goTo(withNotice(`${base}/books/entries/${made.entry}`, "suspense_explained"))
  }),
})

export const settlementRoutes = [settlements, settlementsFile, explain, one, book]
