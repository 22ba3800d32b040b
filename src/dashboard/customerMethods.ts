/** The actions on the payment methods of a customer: choosing the default, removing one. */
import { Effect } from "effect"
import { customerApi } from "../billing/customer/api.ts"
import { paymentMethod } from "../pages/words.ts"
import { actionPage, type Subject } from "./actions.ts"
import { MOST, methodChoices } from "./choices.ts"
import { call, type Viewer, withNotice } from "./pages.ts"

const pageOf = ({ base, params }: Viewer): string => `${base}/customers/${params.id}`

const choose = actionPage({
  path: "/customers/:id/default-method",
  declaration: customerApi.update,
  subject: Effect.fnUntraced(function* (viewer) {
    const { params, search } = viewer
    const [{ data: customer }, methods] = yield* Effect.all(
      [call(viewer, customerApi.get, { params }), methodChoices(viewer, params.id!)],
      { concurrency: "unbounded" },
    )
    const chosen = search.get("method") ?? customer.default_payment_method?.id ?? ""
    return {
      title: `Choose how ${customer.name} pays`,
      about: "Subscriptions without a payment method of their own are charged to the default, what they owe at once.",
      initial: new Map([["default_payment_method", [chosen]]]),
      backTo: pageOf(viewer),
      fields: [
        {
          name: "default_payment_method",
          label: "Default payment method",
          kind: "select",
          choices: [{ value: "", label: "none" }, ...methods],
          whenEmpty: "null",
        },
      ],
    } satisfies Subject
  }),
  params: ({ params }) => ({ id: params.id! }),
  button: "Choose it",
  done: (viewer) => withNotice(pageOf(viewer), "saved"),
})

const remove = actionPage({
  path: "/customers/:id/payment-methods/:payment_method/remove",
  declaration: customerApi.deleteMethod,
  subject: Effect.fnUntraced(function* (viewer) {
    const { params } = viewer
    const [{ data: customer }, { data: methods }] = yield* Effect.all(
      [
        call(viewer, customerApi.get, { params }),
        call(viewer, customerApi.listMethods, { params, query: { limit: MOST } }),
      ],
      { concurrency: "unbounded" },
    )
    const method = methods.find(({ id }) => id === params.payment_method)
    return {
      title: `Remove ${method === undefined ? "a payment method" : paymentMethod(method)} of ${customer.name}`,
      about: "It is not charged any more. Subscriptions that used it return to the customer's default.",
      initial: new Map(),
      backTo: pageOf(viewer),
      fields: [],
    } satisfies Subject
  }),
  button: "Remove it",
  isDanger: true,
  done: (viewer) => withNotice(pageOf(viewer), "done"),
})

export const customerMethodRoutes = [choose, remove]
