/** Declares the plan table and renders plans for the API. */
import { BILLING_CYCLES } from "../../../machines/calendar.ts"
import type { Metadata } from "../../base/metadata.ts"
import { CURRENCY } from "../../base/money.ts"
import { formatInstant } from "../../base/time.ts"
import * as column from "../../db/columns.ts"
import { columnsOf, type RowOf, table } from "../../db/table.ts"
import { commonOf } from "../../http/response.ts"
import { PLAN_STATUSES, type Plan, type Reminders, type RetryLogic } from "./api.ts"

const { immutable, mutable } = columnsOf()

export const plans = table(
  "plan",
  { noun: "plan", ids: "plan" },
  {
    name: mutable(column.text),
    description: mutable(column.nullable(column.text)),
    amount_kobo: mutable(column.bigint),
    currency: immutable(column.oneOf([CURRENCY])),
    billing_cycle: immutable(column.oneOf(BILLING_CYCLES)),
    trial_days: mutable(column.integer),
    pause_enabled: mutable(column.flag),
    pro_rate: mutable(column.flag),
    overage_per_unit_kobo: mutable(column.nullable(column.bigint)),
    category: immutable(column.nullable(column.text)),
    service_config: mutable(column.json<Readonly<Record<string, unknown>>>()),
    retry_logic: mutable(column.json<RetryLogic>()),
    reminders: mutable(column.json<Reminders>()),
    metadata: mutable(column.json<Metadata>()),
    status: mutable(column.oneOf(PLAN_STATUSES)),
    created_at: immutable(column.instant),
    updated_at: mutable(column.instant),
  },
)

export type PlanRow = RowOf<typeof plans>

/** The plan columns that decisions on subscriptions read. */
export const PLAN_TERMS = [
  "account_id",
  "livemode",
  "id",
  "amount_kobo",
  "billing_cycle",
  "trial_days",
  "pause_enabled",
  "pro_rate",
  "overage_per_unit_kobo",
  "retry_logic",
  "reminders",
  "status",
  "updated_at",
] as const satisfies ReadonlyArray<keyof PlanRow>

export type PlanTerms = Pick<PlanRow, (typeof PLAN_TERMS)[number]>

export const renderPlan = (row: PlanRow): typeof Plan.Type => ({
  ...commonOf("plan", row),
  updated_at: formatInstant(row.updated_at),
  name: row.name,
  description: row.description,
  amount: row.amount_kobo,
  currency: row.currency,
  billing_cycle: row.billing_cycle,
  trial_days: row.trial_days,
  pause_enabled: row.pause_enabled,
  pro_rate: row.pro_rate,
  overage_per_unit: row.overage_per_unit_kobo,
  category: row.category,
  service_config: row.service_config,
  retry_logic: row.retry_logic,
  reminders: row.reminders,
  metadata: row.metadata,
  status: row.status,
})
