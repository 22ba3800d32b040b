/** The choices of selects: plans, payment methods of a customer, test clocks. Each is a bounded list of the API. */
import { Effect } from "effect"
import { clockApi } from "../billing/clock/api.ts"
import { type Customer, customerApi } from "../billing/customer/api.ts"
import { paymentMethodApi } from "../billing/payment_method/api.ts"
import { type Plan, planApi } from "../billing/plan/api.ts"
import type { Choice } from "../pages/dashboard/fields.ts"
import { instantText, naira } from "../pages/dashboard/parts.ts"
import { every, expiry, paymentMethod } from "../pages/words.ts"
import { may } from "../security/role/rights.ts"
import { call, type Viewer } from "./pages.ts"

/** The longest page of the API's lists. */
export const MOST = "100"

/** A plan as a choice, such as "Gym: ₦5,000.00 every month". */
const planChoice = ({ id, name, amount, billing_cycle }: typeof Plan.Type): Choice => ({
  value: id,
  label: `${name}: ${naira(amount)} ${every(billing_cycle)}`,
})

/** The newest active plans, and the one that the address names. */
export const planChoices = Effect.fnUntraced(function* (viewer: Viewer) {
  const { data: newest } = yield* call(viewer, planApi.list, { query: { status: "active", limit: MOST } })
  const named = viewer.search.get("plan")
  if (named === null || newest.some(({ id }) => id === named)) return newest.map(planChoice)
  const { data: plan } = yield* call(viewer, planApi.get, { params: { id: named } })
  return [plan, ...newest].map(planChoice)
})

/** What stands first in a list of payment methods: the customer's default. */
export const defaultChoice = ({ default_payment_method: method }: typeof Customer.Type): Choice => ({
  value: "",
  label:
    method === null ? "The customer has no default: choose one" : `The customer's default: ${paymentMethod(method)}`,
})

/** The payment methods of a customer; in the sandbox also its test methods, with what each does. */
export const methodChoices = Effect.fnUntraced(function* (viewer: Viewer, customer: string) {
  const [{ data: own }, { data: tests }] = yield* Effect.all(
    [
      call(viewer, customerApi.listMethods, { params: { id: customer }, query: { limit: MOST } }),
      viewer.environment === "sandbox"
        ? call(viewer, paymentMethodApi.testIds, { query: { limit: MOST } })
        : Effect.succeed({ data: [] }),
    ],
    { concurrency: "unbounded" },
  )
  const has = new Set(own.map(({ id }) => id))
  return [
    ...own.map((method): Choice => {
      const until = expiry(method)
      return { value: method.id, label: `${paymentMethod(method)}${until === null ? "" : `, ${until}`}` }
    }),
    ...tests
      .filter(({ id }) => !has.has(id))
      .map(({ id, behaviour }): Choice => ({ value: id, label: `${id}: ${behaviour}` })),
  ]
})

/** The test clocks of the sandbox, for members who may use them; none in live. */
export const clockChoices = (viewer: Viewer) =>
  viewer.environment === "live" || !may(viewer.session.role, "develop", false)
    ? Effect.succeed<ReadonlyArray<Choice>>([])
    : Effect.map(call(viewer, clockApi.list, { query: { limit: MOST } }), ({ data }) =>
        data.map(
          ({ id, name, frozen_time }): Choice => ({
            value: id,
            label: `${name ?? id}: it is ${instantText(Date.parse(frozen_time))}`,
          }),
        ),
      )
