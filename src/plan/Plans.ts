/** Plans (spec 2.2, 4.3; decisions C1 to C3). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { BillingCycle } from "../../machines/calendar.ts"
import type { Ref, Tenant } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { type Metadata, mergeMetadata } from "../metadata.ts"
import { invalid, noSuch, type Problem } from "../problem.ts"
import { formatInstant } from "../time.ts"
import type { PlanCreate, PlanPatch, Reminders, RetryLogic } from "./api.ts"

export interface PlanRow extends Ref {
  readonly name: string
  readonly description: string | null
  readonly amount_kobo: number
  readonly currency: string
  readonly billing_cycle: BillingCycle
  readonly trial_days: number
  readonly pause_enabled: boolean
  readonly pro_rate: boolean
  readonly overage_per_unit_kobo: number | null
  readonly category: string | null
  readonly service_config: Readonly<Record<string, unknown>>
  readonly retry_logic: RetryLogic
  readonly reminders: Reminders
  readonly metadata: Metadata
  readonly status: "active" | "archived"
  readonly created_at: number
  readonly updated_at: number
}

export const DEFAULT_RETRY_LOGIC: RetryLogic = {
  enabled: true,
  max_attempts: 3,
  retry_intervals_days: [1, 3, 7],
  escalation_on_failure: "pause_service",
  cancel_after_days_unpaid: 30,
}

export const DEFAULT_REMINDERS: Reminders = {
  enabled: true,
  channels: ["whatsapp", "sms", "email"],
  pre_due_days: [3],
  post_due_days: [1, 3],
}

export const renderPlan = (row: PlanRow) => ({
  id: row.id,
  object: "plan" as const,
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

/** Field by field: what is given replaces, null returns to the default (decision C2). */
const merge = <T extends object>(
  before: T,
  patch: { readonly [K in keyof T]?: T[K] | null } | null | undefined,
  defaults: T,
  nullable: ReadonlyArray<keyof T> = [],
): T => {
  if (patch === undefined) return before
  if (patch === null) return defaults
  const merged = { ...before }
  // Object.keys forgets which names a type has.
  for (const name of Object.keys(defaults) as unknown as ReadonlyArray<keyof T>) {
    const value = patch[name]
    if (value === undefined) continue
    merged[name] = value === null && !nullable.includes(name) ? defaults[name] : (value as T[typeof name])
  }
  return merged
}

const mergeRetryLogic = (before: RetryLogic, patch: PlanPatch["retry_logic"]): Effect.Effect<RetryLogic, Problem> => {
  const merged = merge(before, patch, DEFAULT_RETRY_LOGIC, ["cancel_after_days_unpaid"])
  return merged.enabled && merged.max_attempts > 0 && merged.retry_intervals_days.length === 0
    ? Effect.fail(
        invalid(
          "retry_logic.retry_intervals_days",
          "retry_logic.retry_intervals_days must hold at least one interval while retries are enabled.",
        ),
      )
    : Effect.succeed(merged)
}

export const createPlan = (tenant: Tenant, input: PlanCreate) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const retryLogic = yield* mergeRetryLogic(DEFAULT_RETRY_LOGIC, input.retry_logic)
    const metadata = yield* mergeMetadata({}, input.metadata)
    const now = new Date()
    const [row] = yield* sql<PlanRow>`
      INSERT INTO plan (account_id, livemode, id, name, description, amount_kobo, currency, billing_cycle, trial_days, pause_enabled, pro_rate,
        overage_per_unit_kobo, category, service_config, retry_logic, reminders, metadata, created_at, updated_at)
      VALUES (${tenant.account_id}, ${tenant.livemode}, ${newId("plan")}, ${input.name}, ${input.description ?? null}, ${input.amount}, ${input.currency},
        ${input.billing_cycle}, ${input.trial_days ?? 0}, ${input.pause_enabled ?? false}, ${input.pro_rate ?? true},
        ${input.overage_per_unit ?? null}, ${input.category ?? null}, ${JSON.stringify(input.service_config ?? {})}::text::jsonb,
        ${JSON.stringify(retryLogic)}::text::jsonb, ${JSON.stringify(merge(DEFAULT_REMINDERS, input.reminders, DEFAULT_REMINDERS))}::text::jsonb,
        ${JSON.stringify(metadata)}::text::jsonb, ${now}, ${now})
      RETURNING *`
    return row!
  })

export const findPlans = (tenant: Tenant, ids: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<PlanRow>`
      SELECT * FROM plan WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ANY(${ids}::text[])`
    return new Map(rows.map((row) => [row.id, row]))
  })

export const getPlan = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const row = (yield* findPlans(tenant, [id])).get(id)
    return row ?? (yield* noSuch("plan", id))
  })

const lockPlan = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<PlanRow>`
      SELECT * FROM plan WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ${id} FOR UPDATE`
    return row ?? (yield* noSuch("plan", id))
  })

export const updatePlan = (tenant: Tenant, id: string, patch: PlanPatch) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const before = yield* lockPlan(tenant, id)
    const retryLogic = yield* mergeRetryLogic(before.retry_logic, patch.retry_logic)
    const metadata = yield* mergeMetadata(before.metadata, patch.metadata)
    const given = <T>(value: T | null | undefined, kept: T, otherwise: T): T =>
      value === undefined ? kept : value === null ? otherwise : value
    const [row] = yield* sql<PlanRow>`
      UPDATE plan SET name = ${patch.name ?? before.name}, description = ${given(patch.description, before.description, null)},
        amount_kobo = ${patch.amount ?? before.amount_kobo}, trial_days = ${given(patch.trial_days, before.trial_days, 0)},
        pause_enabled = ${given(patch.pause_enabled, before.pause_enabled, false)}, pro_rate = ${given(patch.pro_rate, before.pro_rate, true)},
        overage_per_unit_kobo = ${given(patch.overage_per_unit, before.overage_per_unit_kobo, null)},
        service_config = ${JSON.stringify(given(patch.service_config, before.service_config, {}))}::text::jsonb,
        retry_logic = ${JSON.stringify(retryLogic)}::text::jsonb,
        reminders = ${JSON.stringify(merge(before.reminders, patch.reminders, DEFAULT_REMINDERS))}::text::jsonb,
        metadata = ${JSON.stringify(metadata)}::text::jsonb, updated_at = ${new Date()}
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ${id} RETURNING *`
    return row!
  })

/** Archives or unarchives: an archived plan takes no new subscriptions (decision C1). */
export const setPlanStatus = (tenant: Tenant, id: string, status: "active" | "archived") =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const before = yield* lockPlan(tenant, id)
    if (before.status === status) return before
    const [row] = yield* sql<PlanRow>`
      UPDATE plan SET status = ${status}, updated_at = ${new Date()}
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ${id} RETURNING *`
    return row!
  })
