/** The pages of instalment plans, for shops: totals and plans, one plan with its schedule, and the actions on it. */
import { Effect } from "effect"
import { INSTALMENT_PLAN_STATUSES } from "../../machines/instalment.ts"
import { instalmentApi } from "../buying/instalment/api.ts"
import type { SavingsPlan } from "../buying/instalment/shapes.ts"
import type { Field } from "../pages/dashboard/fields.ts"
import { instalmentPlanMain, instalmentsMain } from "../pages/dashboard/instalments.ts"
import { type Action, actionPage, type Subject } from "./actions.ts"
import { csvFile } from "./csv.ts"
import { choicesOf } from "./lists.ts"
import { call, canOperate, memberPage, show, type Viewer, withNotice } from "./pages.ts"
import { readTimeline } from "./timelines.ts"

type Row = typeof SavingsPlan.Type

/** How many plans a page shows, and how many a step of an export reads: each contains its whole schedule. */
const SHOWN = 20

const FILTER: Field = {
  name: "status",
  label: "Status",
  kind: "select",
  choices: choicesOf(INSTALMENT_PLAN_STATUSES),
}

const readPage = (viewer: Viewer, page: string) => {
  const status = viewer.search.get("status") ?? ""
  const query = { page, limit: String(SHOWN), status: status === "" ? undefined : status }
  return Effect.map(call(viewer, instalmentApi.list, { query }), ({ data }) => data)
}

const pathOf = ({ path, search }: Viewer, page: number): string => {
  const status = search.get("status") ?? ""
  const kept = new URLSearchParams({
    ...(status === "" ? {} : { status }),
    ...(page === 1 ? {} : { page: String(page) }),
  })
  return kept.size === 0 ? path : `${path}?${kept}`
}

const list = memberPage(
  "/dashboard/:environment/instalments",
  { right: "see" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const { base, path, search } = viewer
      const [{ items, total, page }, { data: summary }] = yield* Effect.all(
        [readPage(viewer, search.get("page") ?? "1"), call(viewer, instalmentApi.summary)],
        { concurrency: "unbounded" },
      )
      const status = search.get("status") ?? ""
      const view = {
        base,
        path,
        filter: FILTER,
        status,
        summary,
        plans: items,
        total,
        pages: {
          first: page === 1 ? null : pathOf(viewer, 1),
          next: page * SHOWN < total ? pathOf(viewer, page + 1) : null,
          csv: `${path}.csv${status === "" ? "" : `?${new URLSearchParams({ status })}`}`,
        },
        canOperate: canOperate(viewer),
      }
      return show(viewer, "Instalment plans", instalmentsMain(view))
    }),
  },
)

const CSV: ReadonlyArray<readonly [string, (row: Row) => string | number | null]> = [
  ["id", ({ id }) => id],
  ["product", ({ productName }) => productName],
  ["status", ({ status }) => status],
  ["mode", ({ mode }) => mode],
  ["target_naira", ({ targetAmount }) => targetAmount],
  ["paid_naira", ({ amountPaid }) => amountPaid],
  ["outstanding_naira", ({ outstanding }) => outstanding],
  ["pending_fee_naira", ({ pendingFee }) => pendingFee],
  ["next_due_at", ({ nextDue }) => nextDue?.dueAt ?? null],
  ["deadline", ({ deadline }) => deadline],
  ["created_at", ({ createdAt }) => createdAt],
]

const file = memberPage(
  "/dashboard/:environment/instalments.csv",
  { right: "see" },
  {
    GET: (viewer) =>
      // Refused before the file begins, if the account is no shop.
      Effect.andThen(
        readPage(viewer, "1"),
        csvFile(
          `instalments-${viewer.environment}`,
          CSV.map(([name]) => name),
          (cursor) =>
            Effect.map(readPage(viewer, cursor ?? "1"), ({ items, total, page }) => ({
              rows: items,
              next: page * SHOWN < total ? String(page + 1) : null,
            })),
          (row: Row) => CSV.map(([, cell]) => cell(row)),
        ),
      ),
  },
)

const one = memberPage(
  "/dashboard/:environment/instalments/:id",
  { right: "see" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const { params, base } = viewer
      const { data: plan } = yield* call(viewer, instalmentApi.get, { params })
      const timeline = yield* readTimeline(viewer, instalmentApi.timeline)
      const view = { base, plan, ...timeline, canOperate: canOperate(viewer) }
      return show(viewer, `${plan.productName} ${plan.id}`, instalmentPlanMain(view))
    }),
  },
)

/** Makes the page of an action on the plan of the path. */
const planAction = (
  verb: "extend" | "ship" | "deliver",
  declaration: Action["declaration"],
  title: string,
  about: string,
  fields: Subject["fields"] = [],
) =>
  actionPage({
    path: `/instalments/:id/${verb}`,
    declaration,
    subject: (viewer) =>
      Effect.map(call(viewer, instalmentApi.get, { params: viewer.params }), ({ data }) => ({
        title: `${title} ${data.productName} ${data.id}`,
        about,
        initial: new Map(),
        backTo: `${viewer.base}/instalments/${data.id}`,
        fields,
      })),
    button: title,
    done: ({ base, params }) => withNotice(`${base}/instalments/${params.id}`, "done"),
  })

const extend = planAction(
  "extend",
  instalmentApi.extend,
  "Give more time for",
  "Type the days, or the new deadline: one of the two.",
  [
    { name: "days", label: "Days", kind: "number", hint: "1 to 90" },
    { name: "deadline", label: "New deadline", kind: "instant", hint: "In Lagos, later than the one before" },
  ],
)

const ship = planAction("ship", instalmentApi.ship, "Mark as shipped", "The goods have left. The buyer paid all.")

const deliver = planAction("deliver", instalmentApi.deliver, "Mark as delivered", "The buyer has the goods.")

export const instalmentRoutes = [list, file, extend, ship, deliver, one]
