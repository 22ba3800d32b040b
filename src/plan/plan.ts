/** A plan: its table, and how the API shows it. */
import { BILLING_CYCLES } from "../../machines/calendar.ts"
import {
  bigint,
  columnsOf,
  flag,
  instant,
  integer,
  json,
  nullable,
  oneOf,
  type RowOf,
  table,
  text,
} from "../db/table.ts"
import type { Metadata } from "../metadata.ts"
import { CURRENCY } from "../money.ts"
import { formatInstant } from "../time.ts"
import { PLAN_STATUSES, type Plan, type Reminders, type RetryLogic } from "./api.ts"

const { fixed, moving } = columnsOf()

export const plans = table(
  "plan",
  { noun: "plan" },
  {
    name: moving(text),
    description: moving(nullable(text)),
    amount_kobo: moving(bigint),
    currency: fixed(oneOf([CURRENCY])),
    billing_cycle: fixed(oneOf(BILLING_CYCLES)),
    trial_days: moving(integer),
    pause_enabled: moving(flag),
    pro_rate: moving(flag),
    overage_per_unit_kobo: moving(nullable(bigint)),
    category: fixed(nullable(text)),
    service_config: moving(json<Readonly<Record<string, unknown>>>()),
    retry_logic: moving(json<RetryLogic>()),
    reminders: moving(json<Reminders>()),
    metadata: moving(json<Metadata>()),
    status: moving(oneOf(PLAN_STATUSES)),
    created_at: fixed(instant),
    updated_at: moving(instant),
  },
)

export type PlanRow = RowOf<typeof plans>

export const renderPlan = (row: PlanRow): typeof Plan.Type => ({
  id: row.id,
  object: "plan",
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
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
