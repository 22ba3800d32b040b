/** Plans: the verbs of the API (decisions C1 to C3). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { sent } from "../db/pipelining.ts"
import type { Tenant } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { canonical } from "../json.ts"
import { mergeMetadata } from "../metadata.ts"
import { invalid, type Problem } from "../problem.ts"
import type { PLAN_STATUSES, PlanCreate, PlanPatch, Reminders, RetryLogic } from "./api.ts"
import { type PlanRow, plans } from "./plan.ts"
import { RemindersFollow } from "./RemindersFollow.ts"

const DEFAULT_RETRY_LOGIC: RetryLogic = {
  enabled: true,
  max_attempts: 3,
  retry_intervals_days: [1, 3, 7],
  escalation_on_failure: "pause_service",
  cancel_after_days_unpaid: 30,
}

const DEFAULT_REMINDERS: Reminders = {
  enabled: true,
  channels: ["whatsapp", "sms", "email"],
  pre_due_days: [3],
  post_due_days: [1, 3],
}

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
  for (const name in defaults) {
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

/** Refuses retries that a plan cannot begin with. */
export const checkCreate = (name: string, { retry_logic }: PlanCreate) =>
  name === "retry_logic" ? Effect.asVoid(mergeRetryLogic(DEFAULT_RETRY_LOGIC, retry_logic)) : undefined

export const createPlan = Effect.fn("plan.create")(function* (tenant: Tenant, input: PlanCreate) {
  const now = Date.now()
  const row: PlanRow = {
    account_id: tenant.account_id,
    livemode: tenant.livemode,
    id: newId("plan"),
    name: input.name,
    description: input.description ?? null,
    amount_kobo: input.amount,
    currency: input.currency,
    billing_cycle: input.billing_cycle,
    trial_days: input.trial_days ?? 0,
    pause_enabled: input.pause_enabled ?? false,
    pro_rate: input.pro_rate ?? true,
    overage_per_unit_kobo: input.overage_per_unit ?? null,
    category: input.category ?? null,
    service_config: input.service_config ?? {},
    retry_logic: yield* mergeRetryLogic(DEFAULT_RETRY_LOGIC, input.retry_logic),
    reminders: merge(DEFAULT_REMINDERS, input.reminders, DEFAULT_REMINDERS),
    metadata: yield* mergeMetadata({}, input.metadata),
    status: "active",
    created_at: now,
    updated_at: now,
  }
  yield* sent(plans.inserting(yield* SqlClient.SqlClient, [row]))
  return row
})

/**
 * Changes a plan; its subscriptions follow where its reminders change (decision C3). It is locked whole (FOR UPDATE) before: so it waits for
 * those that are about to go by its rules (FOR KEY SHARE), and they for it.
 */
export const updatePlan = Effect.fn("plan.update")(function* (tenant: Tenant, id: string, patch: PlanPatch) {
  const before = yield* plans.lockOne(tenant, id)
  const given = <T>(value: T | null | undefined, kept: T, otherwise: T): T =>
    value === undefined ? kept : value === null ? otherwise : value
  const row: PlanRow = {
    ...before,
    name: patch.name ?? before.name,
    description: given(patch.description, before.description, null),
    amount_kobo: patch.amount ?? before.amount_kobo,
    trial_days: given(patch.trial_days, before.trial_days, 0),
    pause_enabled: given(patch.pause_enabled, before.pause_enabled, false),
    pro_rate: given(patch.pro_rate, before.pro_rate, true),
    overage_per_unit_kobo: given(patch.overage_per_unit, before.overage_per_unit_kobo, null),
    service_config: given(patch.service_config, before.service_config, {}),
    retry_logic: yield* mergeRetryLogic(before.retry_logic, patch.retry_logic),
    reminders: merge(before.reminders, patch.reminders, DEFAULT_REMINDERS),
    metadata: yield* mergeMetadata(before.metadata, patch.metadata),
    updated_at: Date.now(),
  }
  yield* plans.update([{ before, after: row }])
  if (canonical(row.reminders) !== canonical(before.reminders)) yield* (yield* RemindersFollow).reschedule(tenant, id)
  return row
})

/** Archives or unarchives: an archived plan takes no new subscriptions (decision C1). */
export const setPlanStatus = Effect.fn("plan.setStatus")(function* (
  tenant: Tenant,
  id: string,
  status: (typeof PLAN_STATUSES)[number],
) {
  const before = yield* plans.lockOne(tenant, id)
  if (before.status === status) return before
  const row: PlanRow = { ...before, status, updated_at: Date.now() }
  yield* plans.update([{ before, after: row }])
  return row
})
