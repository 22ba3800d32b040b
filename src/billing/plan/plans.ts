/** Implements the API's operations on plans (decisions C1 to C3). */
import { Effect } from "effect"
import { newId } from "../../base/ids.ts"
import { canonical } from "../../base/json.ts"
import { mergeMetadata } from "../../base/metadata.ts"
import { invalid, type Problem } from "../../base/problem.ts"
import { currentTime } from "../../base/wallClock.ts"
import { type Ref, type Tenant, tenantOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { PLAN_DEFAULTS, type PLAN_STATUSES, type PlanCreate, type PlanPatch, type RetryLogic } from "./api.ts"
import { type PlanRow, plans } from "./plan.ts"
import { RemindersFollow } from "./RemindersFollow.ts"

/** Merges a patch field by field: a given value replaces, null resets to the default (decision C2). */
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
  const merged = merge(before, patch, PLAN_DEFAULTS.retry_logic, ["cancel_after_days_unpaid"])
  return merged.enabled && merged.max_attempts > 0 && merged.retry_intervals_days.length === 0
    ? Effect.fail(
        invalid(
          "retry_logic.retry_intervals_days",
          "retry_logic.retry_intervals_days must contain at least one interval while retries are enabled.",
        ),
      )
    : Effect.succeed(merged)
}

/** Refuses invalid retry rules of a new plan. */
export const checkCreate = (name: string, { retry_logic }: PlanCreate) =>
  name === "retry_logic" ? Effect.asVoid(mergeRetryLogic(PLAN_DEFAULTS.retry_logic, retry_logic)) : undefined

export const createPlan = Effect.fn("plan.create")(function* (tenant: Tenant, input: PlanCreate) {
  const now = currentTime()
  const row: PlanRow = {
    account_id: tenant.account_id,
    livemode: tenant.livemode,
    id: newId("plan"),
    name: input.name,
    description: input.description ?? null,
    amount_kobo: input.amount,
    currency: input.currency,
    billing_cycle: input.billing_cycle,
    trial_days: input.trial_days ?? PLAN_DEFAULTS.trial_days,
    pause_enabled: input.pause_enabled ?? PLAN_DEFAULTS.pause_enabled,
    pro_rate: input.pro_rate ?? PLAN_DEFAULTS.pro_rate,
    overage_per_unit_kobo: input.overage_per_unit ?? null,
    category: input.category ?? null,
    service_config: input.service_config ?? PLAN_DEFAULTS.service_config,
    retry_logic: yield* mergeRetryLogic(PLAN_DEFAULTS.retry_logic, input.retry_logic),
    reminders: merge(PLAN_DEFAULTS.reminders, input.reminders, PLAN_DEFAULTS.reminders),
    metadata: yield* mergeMetadata({}, input.metadata),
    status: "active",
    created_at: now,
    updated_at: now,
  }
  ;(yield* unitOfWork).insert(plans, [row])
  return row
})

/**
 * Changes a plan and, if its reminder rules change, its subscriptions' reminders (decision C3). Locks the plan first (FOR UPDATE): it waits
 * for transactions that are about to use the plan's rules (FOR KEY SHARE), and they wait for it.
 */
export const updatePlan = Effect.fn("plan.update")(function* (tenant: Tenant, id: string, patch: PlanPatch) {
  const before = yield* plans.lockOne(tenant, id)
  const patched = <T>(value: T | null | undefined, current: T, fallback: T): T =>
    value === undefined ? current : value === null ? fallback : value
  const row: PlanRow = {
    ...before,
    name: patch.name ?? before.name,
    description: patched(patch.description, before.description, null),
    amount_kobo: patch.amount ?? before.amount_kobo,
    trial_days: patched(patch.trial_days, before.trial_days, PLAN_DEFAULTS.trial_days),
    pause_enabled: patched(patch.pause_enabled, before.pause_enabled, PLAN_DEFAULTS.pause_enabled),
    pro_rate: patched(patch.pro_rate, before.pro_rate, PLAN_DEFAULTS.pro_rate),
    overage_per_unit_kobo: patched(patch.overage_per_unit, before.overage_per_unit_kobo, null),
    service_config: patched(patch.service_config, before.service_config, PLAN_DEFAULTS.service_config),
    retry_logic: yield* mergeRetryLogic(before.retry_logic, patch.retry_logic),
    reminders: merge(before.reminders, patch.reminders, PLAN_DEFAULTS.reminders),
    metadata: yield* mergeMetadata(before.metadata, patch.metadata),
    updated_at: currentTime(),
  }
  ;(yield* unitOfWork).update(plans, [{ before, after: row }])
  if (canonical(row.reminders) !== canonical(before.reminders)) yield* (yield* RemindersFollow).reschedule(tenant, id)
  return row
})

/** Archives or unarchives a plan: an archived plan takes no new subscriptions (decision C1). */
export const setPlanStatus = Effect.fn("plan.setStatus")(function* (
  tenant: Tenant,
  id: string,
  status: (typeof PLAN_STATUSES)[number],
) {
  const before = yield* plans.lockOne(tenant, id)
  if (before.status === status) return before
  const row: PlanRow = { ...before, status, updated_at: currentTime() }
  ;(yield* unitOfWork).update(plans, [{ before, after: row }])
  return row
})

/**
 * Returns the tenant's plans with these IDs, by ID, for subscriptions that are about to be created. Locks them (FOR KEY SHARE): a request
 * that changes a plan's rules waits until the subscriptions exist, so the change reaches them.
 */
export const plansToBegin = Effect.fnUntraced(function* (tenant: Tenant, ids: ReadonlyArray<string>) {
  const wanted = [...new Set(ids)].map((id): Ref => ({ ...tenantOf(tenant), id }))
  const found = yield* plans.lock(wanted, "KEY SHARE")
  return new Map(found.map((row): [string, PlanRow] => [row.id, row]))
})
