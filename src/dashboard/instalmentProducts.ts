/** The pages of products that are sold in instalments: the list with sales, and creating and changing one. Amounts are whole naira. */
import { Effect } from "effect"
import { FREQUENCIES, INSTALMENT_MODES } from "../../machines/instalment_schedule.ts"
import { problem } from "../base/problem.ts"
import { instalmentApi, PRODUCT_DEFAULTS } from "../buying/instalment/api.ts"
import type { Typed } from "../pages/dashboard/fields.ts"
import { productsMain } from "../pages/dashboard/instalments.ts"
import { words } from "../pages/dashboard/parts.ts"
import { actionPage } from "./actions.ts"
import type { Input } from "./inputs.ts"
import { call, canOperate, memberPage, show, type Viewer, withNotice } from "./pages.ts"

/** How many products a page shows, of the 500 that an account can have. */
const SHOWN = 50

const WHOLE = "A whole number of naira"

const FIELDS: ReadonlyArray<Input> = [
  { name: "name", label: "Name", kind: "text", isRequired: true, maxlength: 120, whenEmpty: "empty" },
  { name: "price", label: "Price", kind: "number", hint: WHOLE, isRequired: true },
  { name: "cycleMonths", label: "Months to pay", kind: "number", hint: "1 to 24", isRequired: true },
  {
    name: "mode",
    label: "How buyers pay",
    kind: "radios",
    choices: [
      { value: INSTALMENT_MODES[0], label: "Fixed: the same amount at fixed times" },
      { value: INSTALMENT_MODES[1], label: "Flexible: any amount until the deadline" },
    ],
  },
  {
    name: "allowedFrequencies",
    label: "How often, to choose from",
    kind: "checkboxes",
    choices: FREQUENCIES.map((value) => ({ value, label: words(value) })),
    hint: "At least one for fixed, none for flexible",
  },
  { name: "description", label: "Description", kind: "textarea", maxlength: 2_000, whenEmpty: "null" },
  { name: "image", label: "Picture", kind: "url", hint: "An address that begins with https://", whenEmpty: "null" },
  { name: "slots", label: "How many plans there can be", kind: "number", hint: "Empty: any number", whenEmpty: "null" },
  { name: "familyId", label: "Family", kind: "text", maxlength: 64, hint: "To group products", whenEmpty: "null" },
  { name: "lateFee", label: "Fee for a missed instalment", kind: "number", hint: WHOLE },
  { name: "refundWindowDays", label: "Days to give back after delivery", kind: "number" },
  { name: "isActive", label: "Buyers can start new plans", kind: "checkbox" },
]

const NEW_PRODUCT: Typed = new Map([
  ["mode", ["fixed"]],
  ["allowedFrequencies", ["monthly"]],
  ["lateFee", [String(PRODUCT_DEFAULTS.lateFee)]],
  ["refundWindowDays", [String(PRODUCT_DEFAULTS.refundWindowDays)]],
  ["isActive", [String(PRODUCT_DEFAULTS.isActive)]],
])

const listPath = ({ base }: Viewer): string => `${base}/instalments/products`

const list = memberPage(
  "/dashboard/:environment/instalments/products",
  { right: "see" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const { data } = yield* call(viewer, instalmentApi.listProducts)
      const path = listPath(viewer)
      const from = Math.max(0, Number.parseInt(viewer.search.get("from") ?? "0", 10) || 0)
      const pages = {
        first: from === 0 ? null : path,
        next: from + SHOWN < data.length ? `${path}?from=${from + SHOWN}` : null,
        csv: null,
      }
      const products = data.slice(from, from + SHOWN)
      const view = { path, base: viewer.base, products, pages, canOperate: canOperate(viewer) }
      return show(viewer, "Products in instalments", productsMain(view))
    }),
  },
)

const create = actionPage({
  path: "/instalments/products/new",
  declaration: instalmentApi.createProduct,
  subject: (viewer) =>
    // Refused at once if the account is no shop.
    Effect.as(call(viewer, instalmentApi.listProducts), {
      title: "New product",
      about: null,
      initial: NEW_PRODUCT,
      backTo: listPath(viewer),
      fields: FIELDS,
    }),
  button: "Create the product",
  done: (viewer) => withNotice(listPath(viewer), "created"),
})

const edit = actionPage({
  path: "/instalments/products/:id/edit",
  declaration: instalmentApi.updateProduct,
  subject: Effect.fnUntraced(function* (viewer) {
    const { data } = yield* call(viewer, instalmentApi.listProducts)
    const product = data.find(({ id }) => id === viewer.params.id)
    if (product === undefined) return yield* problem("resource_missing", `No such product: ${viewer.params.id}.`)
    return {
      title: `Change ${product.name}`,
      about: "Plans that have started keep their terms.",
      initial: new Map<string, ReadonlyArray<string>>([
        ["name", [product.name]],
        ["price", [String(product.price)]],
        ["cycleMonths", [String(product.cycleMonths)]],
        ["mode", [product.mode]],
        ["allowedFrequencies", product.allowedFrequencies],
        ["description", [product.description ?? ""]],
        ["image", [product.image ?? ""]],
        ["slots", [String(product.slots.total ?? "")]],
        ["familyId", [product.familyId ?? ""]],
        ["lateFee", [String(product.lateFee)]],
        ["refundWindowDays", [String(product.refundWindowDays)]],
        ["isActive", [String(product.isActive)]],
      ]),
      backTo: listPath(viewer),
      fields: FIELDS,
    }
  }),
  button: "Save",
  done: (viewer) => withNotice(listPath(viewer), "saved"),
})

export const instalmentProductRoutes = [list, create, edit]
