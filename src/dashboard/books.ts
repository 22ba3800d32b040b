/** The pages of the books: trial balance, ledger accounts by day, entries with their cause, rules, and exports (decision R8). */

import { Effect } from "effect"
import { inNaira } from "../base/money.ts"
import { type Problem, problem } from "../base/problem.ts"
import { formatDayOf } from "../base/time.ts"
import { currentTime } from "../base/wallClock.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import {
  checkRules,
  isQuicklyChecked,
  readBookDays,
  readBookLines,
  readChart,
  readEntry,
  readMonths,
} from "../ledger/accountBooks.ts"
import { closedThrough, readClosed } from "../ledger/accountClosing.ts"
import { LEDGER_ACCOUNTS, type LedgerAccount } from "../ledger/chart.ts"
import { readBalances } from "../ledger/dayTotals.ts"
import { POSTINGS } from "../ledger/postings.ts"
import { entryMain } from "../pages/dashboard/bookEntry.ts"
import { accountMain, booksMain, dayMain, rulesMain } from "../pages/dashboard/books.ts"
import { words } from "../pages/dashboard/parts.ts"
import { csvFile } from "./csv.ts"
import { pathOfObject } from "./objects.ts"
import { memberPage, show, type Viewer } from "./pages.ts"

const FINANCE = { right: "finance" } as const
const BOOKS = "/dashboard/:environment/books"

const DAYS_SHOWN = 31
const LINES_SHOWN = 50
const EXPORTED = 1_000
const AFTER_ALL_DAYS = "8999-12-31"

const MISSING = problem("resource_missing", "The books have nothing of this name.")

const isDay = (text: string): boolean =>
  /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text)) && formatDayOf(Date.parse(text)) === text

const codeIn = ({ params }: Viewer): Effect.Effect<LedgerAccount, Problem> =>
  Object.hasOwn(LEDGER_ACCOUNTS, params.code!) ? Effect.succeed(params.code as LedgerAccount) : Effect.fail(MISSING)

const dayIn = ({ params }: Viewer): Effect.Effect<string, Problem> =>
  isDay(params.day!) ? Effect.succeed(params.day!) : Effect.fail(MISSING)

const readingOf = <A, E, R>({ tenant }: Viewer, work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(TenantDatabase, ({ reading }) => reading(tenant, work))

/** The day that a page shows: the one that was asked for, or the end of the books. */
const askedDay = ({ search }: Viewer): string | null => {
  const day = search.get("at") ?? ""
  return isDay(day) ? day : null
}

const readTrialBalance = Effect.fnUntraced(function* (viewer: Viewer) {
  const day = askedDay(viewer) ?? AFTER_ALL_DAYS
  const [chart, balances] = yield* Effect.all([readChart, readBalances(viewer.tenant, day)], {
    concurrency: "unbounded",
  })
  return chart.flatMap((account) => {
    const found = balances.find(({ measure }) => measure === account.code)
    return found === undefined ? [] : [{ ...account, debit_kobo: found.debit_kobo, credit_kobo: found.credit_kobo }]
  })
})

const books = memberPage(BOOKS, FINANCE, {
  GET: Effect.fnUntraced(function* (viewer) {
    const { base, tenant } = viewer
    const [rows, months, closed] = yield* readingOf(
      viewer,
      Effect.all([readTrialBalance(viewer), readMonths(tenant), readClosed(tenant)], { concurrency: "unbounded" }),
    )
    const view = {
      base,
      at: askedDay(viewer),
      today: formatDayOf(currentTime()),
      rows,
      months,
      closed,
      closedThrough: closedThrough(closed),
      lastClosable: lastClosable(viewer),
    }
    return show(viewer, "Books", booksMain(view))
  }),
})

/** The last month that may be closed: in live the last that is over, in the sandbox any. */
export const lastClosable = ({ tenant }: Pick<Viewer, "tenant">): string => {
  const now = new Date(currentTime())
  return tenant.livemode ? formatDayOf(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 0)).slice(0, 7) : "8999-12"
}

const booksFile = memberPage(`${BOOKS}.csv`, FINANCE, {
  GET: (viewer) =>
    csvFile(
      `trial-balance-${viewer.environment}-${askedDay(viewer) ?? formatDayOf(currentTime())}`,
      ["ledger_account", "name", "kind", "debit_naira", "credit_naira", "balance_naira"],
      () => Effect.map(readingOf(viewer, readTrialBalance(viewer)), (rows) => ({ rows, next: null })),
      ({ code, name, kind, debit_kobo, credit_kobo }) => [
        code,
        name,
        kind,
        Number(inNaira(debit_kobo)),
        Number(inNaira(credit_kobo)),
        Number(inNaira(debit_kobo - credit_kobo)),
      ],
    ),
})

/** Checks the rules, for a member who waits. Null: the books are too large for that. */
export const checkedRules = ({ tenant }: Viewer) =>
  Effect.flatMap(TenantDatabase, ({ reading }) =>
    Effect.catchIf(
      reading(tenant, checkRules),
      (error) => error._tag === "Problem" && error.code === "query_too_slow",
      () => Effect.succeed(null),
    ),
  )

const rules = memberPage(`${BOOKS}/rules`, FINANCE, {
  GET: Effect.fnUntraced(function* (viewer) {
    const isQuick = yield* readingOf(viewer, isQuicklyChecked)
    const rows = isQuick ? yield* checkedRules(viewer) : null
    return show(viewer, "Rules of the books", rulesMain({ base: viewer.base, rows }))
  }),
})

const entry = memberPage(`${BOOKS}/entries/:id`, FINANCE, {
  GET: Effect.fnUntraced(function* (viewer) {
    const row = yield* readingOf(viewer, readEntry(viewer.tenant, viewer.params.id!))
    if (row === undefined) return yield* MISSING
    const { environment, base } = viewer
    const about = [
      ["Customer", row.customer_id],
      ["Subscription", row.subscription_id],
      ["Charge", row.charge_id],
      ["Plan", row.plan_id],
      ["Instalment plan", row.instalment_plan_id],
    ] as const
    const view = {
      ...row,
      base,
      meaning: POSTINGS[row.event].meaning,
      about: about.flatMap(([name, id]) => (id === null ? [] : [{ name, id, path: pathOfObject(id, environment) }])),
    }
    return show(viewer, "Entry of the books", entryMain(view))
  }),
})

const account = memberPage(`${BOOKS}/:code`, FINANCE, {
  GET: Effect.fnUntraced(function* (viewer) {
    const { tenant, path, search } = viewer
    const code = yield* codeIn(viewer)
    const asked = search.get("before") ?? ""
    const before = isDay(asked) ? asked : AFTER_ALL_DAYS
    const [chart, found] = yield* readingOf(
      viewer,
      Effect.all([readChart, readBookDays(tenant, code, before, DAYS_SHOWN + 1)], { concurrency: "unbounded" }),
    )
    const days = found.slice(0, DAYS_SHOWN)
    const { name, kind } = chart.find((one) => one.code === code)!
    const pages = {
      first: before === AFTER_ALL_DAYS ? null : path,
      next: found.length > DAYS_SHOWN ? `${path}?before=${days.at(-1)!.day}` : null,
      csv: `${path}.csv`,
    }
    return show(viewer, name, accountMain({ base: viewer.base, code, name, kind, days, pages }))
  }),
})

const accountFile = memberPage(`${BOOKS}/:code.csv`, FINANCE, {
  GET: Effect.fnUntraced(function* (viewer) {
    const code = yield* codeIn(viewer)
    return yield* csvFile(
      `${code}-${viewer.environment}`,
      ["day", "debit_naira", "credit_naira", "balance_naira", "lines"],
      (cursor) =>
        Effect.map(
          readingOf(viewer, readBookDays(viewer.tenant, code, cursor ?? AFTER_ALL_DAYS, EXPORTED)),
          (rows) => ({ rows, next: rows.length === EXPORTED ? rows.at(-1)!.day : null }),
        ),
      ({ day, debit_kobo, credit_kobo, balance_kobo, lines }) => [
        day,
        Number(inNaira(debit_kobo)),
        Number(inNaira(credit_kobo)),
        Number(inNaira(balance_kobo)),
        lines,
      ],
    )
  }),
})

const day = memberPage(`${BOOKS}/:code/:day`, FINANCE, {
  GET: Effect.fnUntraced(function* (viewer) {
    const { tenant, path, search, base, environment } = viewer
    const [code, on] = [yield* codeIn(viewer), yield* dayIn(viewer)]
    const after = search.get("starting_after") ?? ""
    const found = yield* readingOf(viewer, readBookLines(tenant, code, on, after, LINES_SHOWN + 1))
    const lines = found.slice(0, LINES_SHOWN)
    const pages = {
      first: after === "" ? null : path,
      next: found.length > LINES_SHOWN ? `${path}?starting_after=${lines.at(-1)!.place}` : null,
      csv: `${path}.csv`,
    }
    const rows = lines.map((line) => {
      const about = line.charge_id ?? line.subscription_id
      return { ...line, about, aboutPath: pathOfObject(about, environment) }
    })
    const name = words(code)
    const title = `${name[0]!.toUpperCase()}${name.slice(1)} on ${on}`
    return show(viewer, title, dayMain({ base, title, code, rows, pages }))
  }),
})

const dayFile = memberPage(`${BOOKS}/:code/:day.csv`, FINANCE, {
  GET: Effect.fnUntraced(function* (viewer) {
    const [code, on] = [yield* codeIn(viewer), yield* dayIn(viewer)]
    return yield* csvFile(
      `${code}-${on}-${viewer.environment}`,
      ["entry", "event", "detail", "charge", "subscription", "amount_naira", "reason"],
      (cursor) =>
        Effect.map(readingOf(viewer, readBookLines(viewer.tenant, code, on, cursor ?? "", EXPORTED)), (rows) => ({
          rows,
          next: rows.length === EXPORTED ? rows.at(-1)!.place : null,
        })),
      ({ entry, event, detail, charge_id, subscription_id, amount_kobo, reason }) => [
        entry,
        event,
        detail,
        charge_id,
        subscription_id,
        Number(inNaira(amount_kobo)),
        reason,
      ],
    )
  }),
})

export const bookRoutes = [books, booksFile, rules, entry, accountFile, account, dayFile, day]
