/** The table of products that merchants sell in instalments. */
import { FREQUENCIES, INSTALMENT_MODES } from "../../../machines/instalment_schedule.ts"
import * as column from "../../db/columns.ts"
import { columnsOf, type RowOf, table } from "../../db/table.ts"

const { immutable, mutable } = columnsOf()

export const products = table(
  "instalment_product",
  { noun: "product" },
  {
    name: mutable(column.text),
    description: mutable(column.nullable(column.text)),
    price_kobo: mutable(column.bigint),
    image: mutable(column.nullable(column.text)),
    cycle_months: mutable(column.integer),
    mode: mutable(column.oneOf(INSTALMENT_MODES)),
    allowed_frequencies: mutable(column.someOf(FREQUENCIES)),
    slots_total: mutable(column.nullable(column.integer)),
    /** Plans that are not cancelled: the database counts them. */
    slots_used: immutable(column.integer),
    family_id: mutable(column.nullable(column.text)),
    late_fee_kobo: mutable(column.bigint),
    refund_window_days: mutable(column.integer),
    is_active: mutable(column.flag),
    /** Written by Views.ts. */
    views: immutable(column.bigint),
    created_at: immutable(column.instant),
    updated_at: mutable(column.instant),
  },
)

export type ProductRow = RowOf<typeof products>

/** Returns how many plans a product may have in all, has, and can still take. */
export const slotsOf = ({ slots_total: total, slots_used: used }: Pick<ProductRow, "slots_total" | "slots_used">) => ({
  total,
  used,
  remaining: total === null ? null : total - used,
})
