/** The pages that close a month of an account's books and open it again, each with its consequences before it is confirmed. */
import { Effect } from "effect"
import { problem } from "../base/problem.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { isQuicklyChecked } from "../ledger/accountBooks.ts"
import {
  closedThrough,
  closeMonth,
  type OpenItem,
  readClosed,
  readOpenItems,
  reopenMonth,
  untilItHolds,
} from "../ledger/accountClosing.ts"
import { closeMain, isHindered, type Obstacles } from "../pages/dashboard/closing.ts"
import { changing } from "./account.ts"
import { checkedRules, lastClosable } from "./books.ts"
import type { Form } from "./forms.ts"
import { pathOfObject } from "./objects.ts"
import { goTo, memberPage, show, type Viewer, withNotice } from "./pages.ts"

/** A reason is kept for ever: a sentence, not a letter. */
const MAX_REASON = 500

const isMonth = (text: string): boolean => /^\d{4}-(0[1-9]|1[0-2])$/.test(text)

const monthIn = ({ params }: Viewer) =>
  isMonth(params.month!) ? Effect.succeed(params.month!) : problem("resource_missing", "There is no such month.")

const ITEM_TEXTS: Readonly<Record<OpenItem["kind"], string>> = {
  suspense: "In suspense: a payout that the books do not explain",
  exception: "The payment rail contradicts the books",
  pending_charge: "A charge without an answer",
  revenue:
    "Revenue is not booked to the end of the month: it is booked until this day. The service books the rest: try again in a few minutes",
}

/**
 * Reads what stands in the way of a closing. The page checks the rules only if that is quick, and otherwise says that confirming does;
 * confirming always checks them.
 */
const readObstacles = Effect.fnUntraced(function* (viewer: Viewer, month: string, isConfirming: boolean) {
  const { tenant, environment, base } = viewer
  const { reading } = yield* TenantDatabase
  const [items, isQuick] = yield* reading(tenant, Effect.all([readOpenItems(tenant, month), isQuicklyChecked]))
  const rules = isQuick || isConfirming ? yield* checkedRules(viewer) : undefined
  // Suspense has a list of its own.
  const broken = (rules ?? []).filter(({ rule, problem }) => problem !== null && rule !== "suspense")
  return {
    rules: rules === undefined ? "later" : rules === null ? "too large" : "checked",
    items: [
      ...items.map(({ kind, about, kobo, day }) => ({
        text: ITEM_TEXTS[kind],
        about,
        kobo,
        day,
        path: kind === "suspense" ? `${base}/settlements/suspense/${about}` : pathOfObject(about, environment),
      })),
      ...broken.map(({ problem }) => ({ text: problem!, about: null, kobo: null, day: null, path: null })),
    ],
  } satisfies Obstacles
})

interface Shown {
  readonly obstacles?: Obstacles
  readonly refusal?: string
  readonly reason?: string
  readonly status?: number
}

const NO_OBSTACLES: Obstacles = { items: [], rules: "checked" }

const showPage = Effect.fnUntraced(function* (
  viewer: Viewer,
  action: "close" | "reopen",
  { obstacles: found, refusal = "", reason = "", status = 200 }: Shown = {},
) {
  const month = yield* monthIn(viewer)
  const obstacles = found ?? (action === "close" ? yield* readObstacles(viewer, month, false) : NO_OBSTACLES)
  const { base, formToken, path } = viewer
  const view = { ...obstacles, base, month, action, reason, formToken, path, refusal: refusal === "" ? null : refusal }
  return show(viewer, action === "close" ? `Close ${month}` : `Open ${month} again`, closeMain(view), status)
})

/** Checks that the month may be closed or opened now. */
const refusalOf = Effect.fnUntraced(function* (viewer: Viewer, action: "close" | "reopen", month: string) {
  const { reading } = yield* TenantDatabase
  const closed = yield* reading(viewer.tenant, readClosed(viewer.tenant))
  const through = closedThrough(closed)
  const isClosed = through !== null && month <= through
  if (action === "close") {
    if (isClosed) return `${month} is closed already.`
    return month > lastClosable(viewer) ? `${month} is not over yet.` : undefined
  }
  if (!isClosed) return `${month} is not closed.`
  return closed.byService !== null && month <= closed.byService
    ? `${month} was closed by the service: only its operator opens it again.`
    : undefined
})

const confirm = Effect.fnUntraced(function* (viewer: Viewer, action: "close" | "reopen", form: Form) {
  const { tenant, base } = viewer
  const month = yield* monthIn(viewer)
  const reason = form.get("reason").slice(0, MAX_REASON)
  const refusal = yield* refusalOf(viewer, action, month)
  if (refusal !== undefined) return yield* showPage(viewer, action, { refusal, reason, status: 409 })
  const obstacles = action === "close" ? yield* readObstacles(viewer, month, true) : NO_OBSTACLES
  const needsReason = action === "reopen" || isHindered(obstacles)
  if (needsReason && reason === "") {
    const refusal = "Give the reason: it is kept with the closing."
    return yield* showPage(viewer, action, { obstacles, refusal, status: 400 })
  }
  const work =
    action === "close" ? closeMonth(tenant, month, needsReason ? reason : null) : reopenMonth(tenant, month, reason)
  yield* changing(viewer, `books.${action}`, () => ({ kind: "month", id: month }), work, tenant)
  yield* untilItHolds
  return goTo(withNotice(`${base}/books`, action === "close" ? "month_closed" : "month_reopened"))
})

const monthPage = (action: "close" | "reopen") =>
  memberPage(
    `/dashboard/:environment/books/months/:month/${action}`,
    { right: "finance" },
    {
      GET: (viewer) => showPage(viewer, action),
      POST: (viewer, form) => confirm(viewer, action, form),
    },
  )

export const closingRoutes = [monthPage("close"), monthPage("reopen")]
