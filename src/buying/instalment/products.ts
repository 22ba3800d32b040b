/** Products: the actions of the API (decision L2), and their sales. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { KOBO_OF_NAIRA } from "../../../machines/instalment_schedule.ts"
import { newId } from "../../base/ids.ts"
import { invalid, problem } from "../../base/problem.ts"
import { formatInstant } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { ofTenant, type Tenant, tenantOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { LOCKS } from "../../postgres/advisoryLocks.ts"
import { PRODUCT_DEFAULTS, type ProductCreate, type ProductPatch } from "./api.ts"
import type { ProductViews } from "./ProductViews.ts"
import { naira } from "./plan.ts"
import { type ProductRow, products, slotsOf } from "./product.ts"
import type { Offer, Product } from "./shapes.ts"

/** Most products of one account and environment: a list returns all of them. */
const MAX_PRODUCTS = 500

/** A fixed plan has payment frequencies; a flexible one has none. */
const checkFrequencies = ({ mode, allowed_frequencies }: Pick<ProductRow, "mode" | "allowed_frequencies">) => {
  if (mode === "fixed" && allowed_frequencies.length === 0)
    return Effect.fail(
      problem("parameter_missing", "allowedFrequencies is needed if mode is fixed.", "allowedFrequencies"),
    )
  return mode === "flexible" && allowed_frequencies.length > 0
    ? Effect.fail(invalid("allowedFrequencies", "allowedFrequencies goes with mode fixed only."))
    : Effect.void
}

/** Refuses frequencies that do not fit the mode of a new product. */
export const checkCreate = (name: string, { mode, allowedFrequencies = [] }: ProductCreate) =>
  name === "allowedFrequencies" ? checkFrequencies({ mode, allowed_frequencies: allowedFrequencies }) : undefined

const changes = (input: ProductPatch): Partial<ProductRow> => {
  const { name, price, cycleMonths, mode, allowedFrequencies, description, image, slots, familyId, lateFee } = input
  const { refundWindowDays, isActive } = input
  return {
    ...(name === undefined ? {} : { name }),
    ...(price === undefined ? {} : { price_kobo: price * KOBO_OF_NAIRA }),
    ...(cycleMonths === undefined ? {} : { cycle_months: cycleMonths }),
    ...(mode === undefined ? {} : { mode }),
    ...(allowedFrequencies === undefined ? {} : { allowed_frequencies: allowedFrequencies }),
    ...(description === undefined ? {} : { description: description || null }),
    ...(image === undefined ? {} : { image }),
    ...(slots === undefined ? {} : { slots_total: slots }),
    ...(familyId === undefined ? {} : { family_id: familyId }),
    ...(lateFee === undefined ? {} : { late_fee_kobo: lateFee * KOBO_OF_NAIRA }),
    ...(refundWindowDays === undefined ? {} : { refund_window_days: refundWindowDays }),
    ...(isActive === undefined ? {} : { is_active: isActive }),
  }
}

export const createProduct = Effect.fn("instalment.createProduct")(function* (tenant: Tenant, input: ProductCreate) {
  const sql = yield* SqlClient.SqlClient
  const now = currentTime()
  const row: ProductRow = {
    ...tenantOf(tenant),
    id: newId("instalment_product"),
    name: input.name,
    description: null,
    price_kobo: input.price * KOBO_OF_NAIRA,
    image: null,
    cycle_months: input.cycleMonths,
    mode: input.mode,
    allowed_frequencies: [],
    slots_total: null,
    slots_used: 0,
    family_id: null,
    late_fee_kobo: PRODUCT_DEFAULTS.lateFee * KOBO_OF_NAIRA,
    refund_window_days: PRODUCT_DEFAULTS.refundWindowDays,
    is_active: PRODUCT_DEFAULTS.isActive,
    views: 0,
    created_at: now,
    updated_at: now,
    ...changes(input),
  }
  yield* checkFrequencies(row)
  // Creations run one after another, so that the limit also holds for simultaneous requests.
  yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.products}, hashtext(${`${tenant.account_id} ${tenant.livemode}`}))`
  const others = yield* sql`SELECT 1 FROM instalment_product WHERE ${ofTenant(sql, tenant)} LIMIT ${MAX_PRODUCTS}`
  if (others.length === MAX_PRODUCTS)
    return yield* problem(
      "savings_product_limit_reached",
      `There are ${MAX_PRODUCTS} products: change one that is not offered any more.`,
    )
  ;(yield* unitOfWork).insert(products, [row])
  return row
})

/** Changes a product. Flexible mode removes its frequencies. */
export const updateProduct = Effect.fn("instalment.updateProduct")(function* (
  tenant: Tenant,
  id: string,
  input: ProductPatch,
) {
  const before = yield* products.lockOne(tenant, id)
  const dropped = input.mode === "flexible" && input.allowedFrequencies === undefined ? { allowed_frequencies: [] } : {}
  const row: ProductRow = { ...before, ...changes(input), ...dropped, updated_at: currentTime() }
  yield* checkFrequencies(row)
  if (row.slots_total !== null && row.slots_total < row.slots_used)
    return yield* problem("slots_in_use", `slots must be at least ${row.slots_used}: so many plans have one.`, "slots")
  ;(yield* unitOfWork).update(products, [{ before, after: row }])
  return row
})

interface Sold {
  readonly product_id: string
  readonly active: number
  readonly overdue: number
  readonly completed: number
  readonly shipped: number
  readonly delivered: number
  readonly begun: number
  readonly collected_kobo: number
  readonly outstanding_kobo: number
  readonly missed_kobo: number
}

/** Reads the number and the amounts of the plans of these products, from an index without the plans' rows. */
export const readSold = Effect.fnUntraced(function* (tenant: Tenant, productIds: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Sold>`
    SELECT product_id,
      count(*) FILTER (WHERE status = 'active') AS active, count(*) FILTER (WHERE status = 'overdue') AS overdue,
      count(*) FILTER (WHERE status = 'completed') AS completed, count(*) FILTER (WHERE status = 'shipped') AS shipped,
      count(*) FILTER (WHERE status = 'delivered') AS delivered, count(*) FILTER (WHERE payments > 0) AS begun,
      coalesce(sum(paid_kobo + fees_paid_kobo) FILTER (WHERE status <> 'cancelled'), 0)::bigint AS collected_kobo,
      coalesce(sum(target_kobo - paid_kobo) FILTER (WHERE status IN ('active', 'overdue')), 0)::bigint AS outstanding_kobo,
      coalesce(sum(missed_kobo) FILTER (WHERE status = 'overdue'), 0)::bigint AS missed_kobo
    FROM instalment_plan WHERE product_id = ANY(${productIds}::text[]) AND ${ofTenant(sql, tenant)} GROUP BY product_id`
  return new Map(rows.map((row) => [row.product_id, row]))
})

type SoldById = Effect.Success<ReturnType<typeof readSold>>

/** Reads all products, the newest first, with their sales. */
export const readProducts = Effect.fnUntraced(function* (tenant: Tenant) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<ProductRow>`
    SELECT * FROM instalment_product WHERE ${ofTenant(sql, tenant)} ORDER BY id DESC LIMIT ${MAX_PRODUCTS}`
  return {
    rows,
    sold: yield* readSold(
      tenant,
      rows.map(({ id }) => id),
    ),
  }
})

export const renderOffer = (row: ProductRow): typeof Offer.Type => ({
  id: row.id,
  object: "savings_product",
  livemode: row.livemode,
  name: row.name,
  description: row.description,
  price: naira(row.price_kobo),
  isActive: row.is_active,
  image: row.image,
  cycleMonths: row.cycle_months,
  mode: row.mode,
  allowedFrequencies: row.allowed_frequencies,
  slots: slotsOf(row),
  lateFee: naira(row.late_fee_kobo),
  refundWindowDays: row.refund_window_days,
})

export const renderProduct = (
  row: ProductRow,
  sold: SoldById,
  views: (typeof ProductViews)["Service"],
): typeof Product.Type => {
  const counts = sold.get(row.id)
  return {
    ...renderOffer(row),
    createdAt: formatInstant(row.created_at),
    familyId: row.family_id,
    views: row.views + views.waiting(row),
    saving: counts?.active ?? 0,
    overdue: counts?.overdue ?? 0,
    readyToDeliver: counts?.completed ?? 0,
    delivered: counts?.delivered ?? 0,
    collected: naira(counts?.collected_kobo ?? 0),
  }
}
