/** What merchants sell in instalments: its table. */
import { FREQUENCIES, INSTALMENT_MODES } from "../../../machines/instalment_schedule.ts"
import * as Kind from "../../db/columns.ts"
import { columnsOf, type RowOf, table } from "../../db/table.ts"

const { fixed, moving } = columnsOf()

export const products = table(
  "instalment_product",
  { noun: "product" },
  {
    name: moving(Kind.text),
    description: moving(Kind.nullable(Kind.text)),
    price_kobo: moving(Kind.bigint),
    image: moving(Kind.nullable(Kind.text)),
    cycle_months: moving(Kind.integer),
    mode: moving(Kind.oneOf(INSTALMENT_MODES)),
    allowed_frequencies: moving(Kind.someOf(FREQUENCIES)),
    slots_total: moving(Kind.nullable(Kind.integer)),
    /** Plans that are not cancelled: the database counts them. */
    slots_used: fixed(Kind.integer),
    family_id: moving(Kind.nullable(Kind.text)),
    late_fee_kobo: moving(Kind.bigint),
    refund_window_days: moving(Kind.integer),
    is_active: moving(Kind.flag),
    /** Written by Views.ts. */
    views: fixed(Kind.bigint),
    created_at: fixed(Kind.instant),
    updated_at: moving(Kind.instant),
  },
)

export type ProductRow = RowOf<typeof products>

/** How many plans a product may have, and has. */
export const slotsOf = ({ slots_total: total, slots_used: used }: Pick<ProductRow, "slots_total" | "slots_used">) => ({
  total,
  used,
  remaining: total === null ? null : total - used,
})
