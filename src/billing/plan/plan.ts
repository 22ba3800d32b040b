/** A plan: its table, and how the API shows it. */
import { BILLING_CYCLES } from "../../../machines/calendar.ts"
import type { Metadata } from "../../base/metadata.ts"
import { CURRENCY } from "../../base/money.ts"
import { formatInstant } from "../../base/time.ts"
import * as Kind from "../../db/columns.ts"
import { columnsOf, type RowOf, table } from "../../db/table.ts"
import { commonOf } from "../../http/response.ts"
import { PLAN_STATUSES, type Plan, type Reminders, type RetryLogic } from "./api.ts"

const { fixed, moving } = columnsOf()

export const plans = table(
  "plan",
  { noun: "plan", ids: "plan" },
  {
    name: moving(Kind.text),
    description: moving(Kind.nullable(Kind.text)),
    amount_kobo: moving(Kind.bigint),
    currency: fixed(Kind.oneOf([CURRENCY])),
    billing_cycle: fixed(Kind.oneOf(BILLING_CYCLES)),
    trial_days: moving(Kind.integer),
    pause_enabled: moving(Kind.flag),
    pro_rate: moving(Kind.flag),
    overage_per_unit_kobo: moving(Kind.nullable(Kind.bigint)),
    category: fixed(Kind.nullable(Kind.text)),
    service_config: moving(Kind.json<Readonly<Record<string, unknown>>>()),
    retry_logic: moving(Kind.json<RetryLogic>()),
    reminders: moving(Kind.json<Reminders>()),
    metadata: moving(Kind.json<Metadata>()),
    status: moving(Kind.oneOf(PLAN_STATUSES)),
    created_at: fixed(Kind.instant),
    updated_at: moving(Kind.instant),
  },
)

export type PlanRow = RowOf<typeof plans>

/** What subscriptions go by of a plan. */
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
