/** The endpoints of instalment plans and their products, and their inputs; shapes.ts has their outputs. */
import { Schema } from "effect"
import { INSTALMENT_PLAN_STATUSES } from "../../../machines/instalment.ts"
import { FREQUENCIES, INSTALMENT_MODES } from "../../../machines/instalment_schedule.ts"
import { isWebAddress } from "../../base/webAddress.ts"
import { declare } from "../../http/Endpoint.ts"
import { pageFields } from "../../http/lists.ts"
import {
  byDefault,
  email,
  flag,
  id,
  instant as instantIn,
  integer,
  numberInQuery,
  oneOf,
  text,
  textOrNull,
} from "../../http/parameters.ts"
import { timelineEndpoint } from "../../runtime/timelineApi.ts"
import { Cancelled, Created, Offer, Plan, PlanList, Product, ProductList, Summary } from "./shapes.ts"

const { optionalKey, Struct } = Schema

/** The largest amount anywhere, in whole naira. */
const MAX_NAIRA = 999_999_999
const MIN_NAIRA = 200
const MAX_SLOTS = 1_000_000_000
const MAX_REFUND_WINDOW_DAYS = 365

const amount = (minimum: number) => integer(minimum, MAX_NAIRA, "a whole number of naira")
const slots = Schema.NullOr(integer(0, MAX_SLOTS)).annotate({
  description: `how many plans there can be: an integer from 0 to ${MAX_SLOTS}, or null for any number`,
})
const frequencies = Schema.Array(oneOf(FREQUENCIES))
  .check(Schema.isMaxLength(FREQUENCIES.length), Schema.isUnique())
  .annotate({ description: `a list of some of ${FREQUENCIES.join(", ")}, each once` })
const IMAGE = "an address that begins with https:// of at most 2000 characters, or null"
const image = Schema.NullOr(
  Schema.String.annotate({ description: IMAGE }).check(
    Schema.makeFilter((value: string) => value.length <= 2_000 && /^https:/i.test(value) && isWebAddress(value)),
  ),
).annotate({ description: IMAGE })
const familyId = Schema.NullOr(text(64)).annotate({
  description:
    "a string of 1 to 64 characters that are not all blank, without control characters other than tab and line ends, or null",
})

const offered = {
  name: text(120),
  price: amount(MIN_NAIRA),
  cycleMonths: integer(1, 24),
  mode: oneOf(INSTALMENT_MODES),
}
const lateFee = amount(0)
const refundWindowDays = integer(0, MAX_REFUND_WINDOW_DAYS)
const further = {
  allowedFrequencies: optionalKey(frequencies),
  description: optionalKey(textOrNull(2_000)),
  image: optionalKey(image),
  slots: optionalKey(slots),
  familyId: optionalKey(familyId),
  lateFee: optionalKey(lateFee),
  refundWindowDays: optionalKey(refundWindowDays),
  isActive: optionalKey(flag),
}

/** The default values of a product. */
export const PRODUCT_DEFAULTS = { lateFee: 0, refundWindowDays: 7, isActive: true } as const

const ProductCreate = Struct({
  ...offered,
  ...further,
  lateFee: byDefault(lateFee, PRODUCT_DEFAULTS.lateFee),
  refundWindowDays: byDefault(refundWindowDays, PRODUCT_DEFAULTS.refundWindowDays),
  isActive: byDefault(flag, PRODUCT_DEFAULTS.isActive),
})
export type ProductCreate = typeof ProductCreate.Type
const ProductPatch = Struct({
  name: optionalKey(offered.name),
  price: optionalKey(offered.price),
  cycleMonths: optionalKey(offered.cycleMonths),
  mode: optionalKey(offered.mode),
  ...further,
})
export type ProductPatch = typeof ProductPatch.Type

const PlanCreate = Struct({
  buyer: Struct({
    name: text(120),
    email: optionalKey(email),
    phone: optionalKey(
      Schema.NullOr(text(40)).annotate({
        description: "a phone number such as 0803 123 4567 or +2348031234567, or null",
      }),
    ),
  }).annotate({ description: "an object with the buyer's name, and email or phone" }),
  frequency: optionalKey(oneOf(FREQUENCIES)),
  testClock: optionalKey(id("a test clock")),
})
export type PlanCreate = typeof PlanCreate.Type

const MAX_EXTENSION_DAYS = 90
const Extend = Struct({
  days: optionalKey(integer(1, MAX_EXTENSION_DAYS)),
  deadline: optionalKey(instantIn),
})
export type Extend = typeof Extend.Type

/** The highest page number of lists; the first page is 1. */
const MAX_PAGE = 1_000_000
const PlanQuery = Struct({
  status: optionalKey(oneOf(INSTALMENT_PLAN_STATUSES)),
  familyId: optionalKey(text(64)),
  page: optionalKey(numberInQuery(MAX_PAGE, "the number of a page", ", 1 by default")),
  limit: pageFields.limit,
})
export type PlanQuery = typeof PlanQuery.Type

const PERIODS = ["7d", "30d", "90d", "12m"] as const
export const DEFAULT_PERIOD = "30d"
export type Period = (typeof PERIODS)[number]

/** For shops (decision L1). */
const shop = { vertical: "ecommerce" } as const
const merchantAccess = { ...shop, access: "provider_savings" } as const
const publicAccess = { ...shop, access: "public" } as const

const EXAMPLE_CREATE: ProductCreate = {
  name: "Inverter",
  price: 300_000,
  cycleMonths: 3,
  mode: "fixed",
  allowedFrequencies: ["weekly", "monthly"],
  slots: 50,
}

export const instalmentApi = {
  createProduct: declare({
    method: "POST",
    path: "/provider-savings/products",
    dryRun: true,
    summary: "Offer a product in instalments",
    notes: "Fixed mode needs at least one of allowedFrequencies; flexible mode takes none. Amounts are whole naira.",
    ...merchantAccess,
    body: ProductCreate,
    example: EXAMPLE_CREATE,
    status: 201,
    success: Product,
    codes: ["savings_product_limit_reached"],
  }),
  listProducts: declare({
    method: "GET",
    path: "/provider-savings/products",
    summary: "List products with their sales",
    ...merchantAccess,
    status: 200,
    success: ProductList,
  }),
  updateProduct: declare({
    method: "PATCH",
    path: "/provider-savings/products/:id",
    dryRun: true,
    summary: "Change a product; plans that have started keep their terms",
    ...merchantAccess,
    body: ProductPatch,
    example: { price: 320_000 },
    status: 200,
    success: Product,
    codes: ["resource_missing", "slots_in_use"],
  }),
  list: declare({
    method: "GET",
    path: "/provider-savings",
    summary: "List instalment plans, the newest first",
    ...merchantAccess,
    query: PlanQuery,
    status: 200,
    success: PlanList,
  }),
  summary: declare({
    method: "GET",
    path: "/provider-savings/summary",
    summary: "Get the totals of instalment plans",
    ...merchantAccess,
    query: Struct({ period: byDefault(oneOf(PERIODS), DEFAULT_PERIOD) }),
    status: 200,
    success: Summary,
  }),
  get: declare({
    method: "GET",
    path: "/provider-savings/:id",
    summary: "Get an instalment plan",
    ...merchantAccess,
    status: 200,
    success: Plan,
    codes: ["resource_missing"],
  }),
  timeline: {
    ...timelineEndpoint("an instalment plan", "/provider-savings/:id/timeline", "provider_savings"),
    ...shop,
  },
  extend: declare({
    method: "POST",
    path: "/provider-savings/:id/extend",
    dryRun: true,
    summary: "Give a buyer more time: by days, or to a deadline",
    notes: "Takes days or deadline, one of the two; a deadline is later than the one before.",
    ...merchantAccess,
    body: Extend,
    example: { days: 14 },
    status: 200,
    success: Plan,
    codes: ["resource_missing", "savings_plan_state_invalid", "test_clock_advancing"],
  }),
  ship: declare({
    method: "POST",
    path: "/provider-savings/:id/ship",
    dryRun: true,
    summary: "Mark a completed plan as shipped",
    ...merchantAccess,
    status: 200,
    success: Plan,
    codes: ["resource_missing", "savings_plan_state_invalid", "test_clock_advancing"],
  }),
  deliver: declare({
    method: "POST",
    path: "/provider-savings/:id/deliver",
    dryRun: true,
    summary: "Mark a shipped plan as delivered",
    ...merchantAccess,
    status: 200,
    success: Plan,
    codes: ["resource_missing", "savings_plan_state_invalid", "test_clock_advancing"],
  }),
  getOffer: declare({
    method: "GET",
    path: "/public/save-to-buy/products/:productId",
    summary: "Get a product as buyers see it",
    ...publicAccess,
    status: 200,
    success: Offer,
    codes: ["resource_missing"],
  }),
  create: declare({
    method: "POST",
    path: "/public/save-to-buy/products/:productId/plans",
    summary: "Begin an instalment plan, as its buyer",
    notes:
      "The buyer has an email or a phone. frequency is one of the product's, and may be left out if the product has one or none. testClock is for the sandbox.",
    ...publicAccess,
    body: PlanCreate,
    example: { buyer: { name: "Ada Obi", email: "ada@example.com" }, frequency: "monthly" },
    status: 201,
    success: Created,
    codes: [
      "resource_missing",
      "slots_exhausted",
      "product_inactive",
      "instalment_too_small",
      "live_access_required",
      "test_clock_not_ready",
      "test_clock_full",
    ],
  }),
  getByToken: declare({
    method: "GET",
    path: "/public/save-to-buy/p/:token",
    summary: "Get an instalment plan by its buyer's token",
    ...publicAccess,
    status: 200,
    success: Plan,
    codes: ["resource_missing"],
  }),
  cancel: declare({
    method: "POST",
    path: "/public/save-to-buy/p/:token/cancel",
    summary: "Cancel an instalment plan, as its buyer",
    ...publicAccess,
    status: 200,
    success: Cancelled,
    codes: ["resource_missing", "savings_plan_state_invalid", "test_clock_advancing"],
  }),
}
