/** The step before an action for a customer whom the address does not name yet: finds the customer by ID, e-mail address or phone number. */
import { Effect } from "effect"
import { isId } from "../base/ids.ts"
import { parsePhone } from "../base/phone.ts"
import { isProblem } from "../base/problem.ts"
import { customerApi } from "../billing/customer/api.ts"
import { chooseCustomerMain } from "../pages/dashboard/chooseCustomer.ts"
import { call, canOperate, goTo, show, type Viewer } from "./pages.ts"

/** How many customers are shown to choose from. */
const SHOWN = "10"

/** Finds customers by what was typed: the ID of one, an e-mail address or a phone number. */
export const findCustomers = Effect.fnUntraced(function* (viewer: Viewer, typed: string) {
  if (isId("customer", typed)) {
    const found = call(viewer, customerApi.get, { params: { id: typed } })
    return yield* Effect.catchIf(
      Effect.map(found, ({ data }) => [data]),
      isProblem,
      () => Effect.succeed([]),
    )
  }
  const query = typed.includes("@") ? { email: typed } : { phone: parsePhone(typed) ?? typed }
  const { data } = yield* call(viewer, customerApi.list, { query: { ...query, limit: SHOWN } })
  return data
})

/** Shows the search for a customer in place of an action, until the address has `customer`. One match leads on directly. */
export const chooseCustomer = (title: string) =>
  Effect.fnUntraced(function* (viewer: Viewer) {
    const { search, path, base } = viewer
    if (search.has("customer")) return undefined
    const typed = search.get("find")?.trim().slice(0, 254) ?? ""
    const rest = [...search].filter(([name]) => name !== "find" && name !== "notice")
    const withCustomer = (id: string) => `${path}?${new URLSearchParams([...rest, ["customer", id]])}`
    const found =
      typed === ""
        ? (yield* call(viewer, customerApi.list, { query: { limit: SHOWN } })).data
        : yield* findCustomers(viewer, typed)
    if (typed !== "" && found.length === 1) return goTo(withCustomer(found[0]!.id))
    const view = {
      title,
      path,
      typed,
      kept: rest,
      found: found.map(({ id, name, email, phone }) => ({ name, email, phone, href: withCustomer(id) })),
      newCustomer: canOperate(viewer) ? `${base}/customers/new` : null,
    }
    return show(viewer, title, chooseCustomerMain(view))
  })
