/** Defines the wire schemas and endpoints of plans. */
import { Schema } from "effect"
import { BILLING_CYCLES } from "../../../machines/calendar.ts"
import { ESCALATION_RULES } from "../../../machines/dunning.ts"
import { CHANNELS } from "../../../machines/nudge.ts"
import { MAX_AMOUNT_KOBO } from "../../base/money.ts"
import { declare } from "../../http/Endpoint.ts"
import { pageFields } from "../../http/lists.ts"
import {
  amount,
  byDefault,
  currency,
  flag,
  freeObject,
  integer,
  metadata,
  metadataPatch,
  oneOf,
  text,
  textOrNull,
} from "../../http/parameters.ts"
import { common, exampleId, instant, kobo, metadata as metadataShown, open } from "../../http/response.ts"

const { Boolean: Bool, Int, Literal, Literals, NullOr, optionalKey, String: Text } = Schema

export const PLAN_STATUSES = ["active", "archived"] as const

/** Limit of a list of days: more than a rule can use. */
const MAX_DAYS_LISTED = 30

const days = (max: number) =>
  Schema.Array(integer(1, max))
    .check(Schema.isMaxLength(MAX_DAYS_LISTED))
    .annotate({ description: `a list of at most ${MAX_DAYS_LISTED} integers from 1 to ${max}` })

export const channels = Schema.Array(oneOf(CHANNELS))
  .check(Schema.isBetweenLength(1, 3), Schema.isUnique())
  .annotate({ description: "a list of whatsapp, sms and email, each at most once, in order of preference" })

const escalation = oneOf(ESCALATION_RULES)

const retryLogicFields = {
  enabled: flag,
  max_attempts: integer(0, 8),
  retry_intervals_days: days(30),
  escalation_on_failure: escalation,
  cancel_after_days_unpaid: NullOr(integer(1, 180)).annotate({
    description: "an integer from 1 to 180, or null for never",
  }),
}
const remindersFields = { enabled: flag, channels, pre_due_days: days(30), post_due_days: days(60) }

export const RetryLogic = Schema.Struct(retryLogicFields)
export type RetryLogic = typeof RetryLogic.Type
export const Reminders = Schema.Struct(remindersFields)
export type Reminders = typeof Reminders.Type

const RETRY_LOGIC: RetryLogic = {
  enabled: true,
  max_attempts: 3,
  retry_intervals_days: [1, 3, 7],
  escalation_on_failure: "pause_service",
  cancel_after_days_unpaid: 30,
}
const REMINDERS: Reminders = {
  enabled: true,
  channels: ["whatsapp", "sms", "email"],
  pre_due_days: [3],
  post_due_days: [1, 3],
}

/** Default values of a plan, used if a parameter is left out or null (decision C2). */
export const PLAN_DEFAULTS = {
  trial_days: 0,
  pause_enabled: false,
  pro_rate: true,
  service_config: {},
  retry_logic: RETRY_LOGIC,
  reminders: REMINDERS,
} as const

/** A parameter that null resets to its default. `value`: the default, given if leaving the parameter out means the default too. */
const orNull = <S extends Schema.Top>(schema: S, value?: S["Type"]) =>
  value === undefined ? optionalKey(NullOr(schema)) : byDefault(NullOr(schema), value)

const retryLogicOf = (defaults?: RetryLogic) =>
  Schema.Struct({
    enabled: orNull(retryLogicFields.enabled, defaults?.enabled),
    max_attempts: orNull(retryLogicFields.max_attempts, defaults?.max_attempts),
    retry_intervals_days: orNull(retryLogicFields.retry_intervals_days, defaults?.retry_intervals_days),
    escalation_on_failure: orNull(retryLogicFields.escalation_on_failure, defaults?.escalation_on_failure),
    cancel_after_days_unpaid:
      defaults === undefined
        ? optionalKey(retryLogicFields.cancel_after_days_unpaid)
        : byDefault(retryLogicFields.cancel_after_days_unpaid, defaults.cancel_after_days_unpaid),
  }).annotate({ description: "an object with the retry rules" })

const remindersOf = (defaults?: Reminders) =>
  Schema.Struct({
    enabled: orNull(remindersFields.enabled, defaults?.enabled),
    channels: orNull(remindersFields.channels, defaults?.channels),
    pre_due_days: orNull(remindersFields.pre_due_days, defaults?.pre_due_days),
    post_due_days: orNull(remindersFields.post_due_days, defaults?.post_due_days),
  }).annotate({ description: "an object with the reminder rules" })

const overage = NullOr(integer(0, MAX_AMOUNT_KOBO, "an integer number of kobo")).annotate({
  description: `an integer number of kobo from 0 to ${MAX_AMOUNT_KOBO}, or null`,
})
const serviceConfig = freeObject("an object")
const cycle = oneOf(BILLING_CYCLES)

export const Plan = Schema.Struct({
  ...common("plan"),
  updated_at: instant,
  name: Text,
  description: NullOr(Text),
  amount: kobo,
  currency: Literal("NGN"),
  billing_cycle: Literals(BILLING_CYCLES),
  trial_days: Int,
  pause_enabled: Bool,
  pro_rate: Bool,
  overage_per_unit: NullOr(kobo),
  category: NullOr(Text),
  service_config: open,
  retry_logic: RetryLogic,
  reminders: Reminders,
  metadata: metadataShown,
  status: Literals(PLAN_STATUSES),
}).annotate({
  identifier: "plan",
  examples: [
    {
      id: exampleId("plan"),
      object: "plan",
      livemode: false,
      created_at: "2026-11-01T09:00:00.000Z",
      updated_at: "2026-11-01T09:00:00.000Z",
      name: "Gym",
      description: null,
      amount: 500_000,
      currency: "NGN",
      billing_cycle: "monthly",
      trial_days: 14,
      pause_enabled: true,
      pro_rate: true,
      overage_per_unit: null,
      category: "gym_fitness",
      service_config: {},
      retry_logic: {
        enabled: true,
        max_attempts: 3,
        retry_intervals_days: [1, 3, 7],
        escalation_on_failure: "pause_service",
        cancel_after_days_unpaid: 30,
      },
      reminders: { enabled: true, channels: ["whatsapp", "sms", "email"], pre_due_days: [3], post_due_days: [1, 3] },
      metadata: {},
      status: "active",
    },
  ],
})

export const PlanCreate = Schema.Struct({
  name: text(120),
  description: optionalKey(textOrNull(500)),
  amount,
  currency,
  billing_cycle: cycle,
  trial_days: byDefault(integer(0, 365), PLAN_DEFAULTS.trial_days),
  pause_enabled: byDefault(flag, PLAN_DEFAULTS.pause_enabled),
  pro_rate: byDefault(flag, PLAN_DEFAULTS.pro_rate),
  overage_per_unit: byDefault(overage, null),
  category: optionalKey(textOrNull(60)),
  service_config: byDefault(serviceConfig, PLAN_DEFAULTS.service_config),
  retry_logic: optionalKey(retryLogicOf(PLAN_DEFAULTS.retry_logic)),
  reminders: optionalKey(remindersOf(PLAN_DEFAULTS.reminders)),
  metadata: optionalKey(metadata),
})
export type PlanCreate = typeof PlanCreate.Type

export const PlanPatch = Schema.Struct({
  name: optionalKey(text(120)),
  description: optionalKey(textOrNull(500)),
  amount: optionalKey(amount),
  trial_days: orNull(integer(0, 365)),
  pause_enabled: orNull(flag),
  pro_rate: orNull(flag),
  overage_per_unit: optionalKey(overage),
  service_config: orNull(serviceConfig),
  retry_logic: orNull(retryLogicOf()),
  reminders: orNull(remindersOf()),
  metadata: optionalKey(metadataPatch),
})
export type PlanPatch = typeof PlanPatch.Type

const PlanList = Schema.Struct({ ...pageFields, status: optionalKey(oneOf(PLAN_STATUSES)) })

export const planApi = {
  create: declare({
    method: "POST",
    path: "/plans",
    dryRun: true,
    summary: "Create a plan",
    notes: "retry_logic.retry_intervals_days must not be empty while retries are enabled and max_attempts is above 0.",
    access: "plans",
    body: PlanCreate,
    example: { name: "Gym", amount: 500_000, currency: "NGN", billing_cycle: "monthly", trial_days: 14 },
    status: 201,
    success: Plan,
  }),
  list: declare({
    method: "GET",
    path: "/plans",
    summary: "List plans",
    access: "plans",
    query: PlanList,
    status: 200,
    success: Plan,
    list: true,
  }),
  get: declare({
    method: "GET",
    path: "/plans/:id",
    summary: "Get a plan",
    access: "plans",
    status: 200,
    success: Plan,
    codes: ["resource_missing"],
  }),
  update: declare({
    method: "PATCH",
    path: "/plans/:id",
    dryRun: true,
    summary:
      "Update a plan: omitted parameters stay unchanged; null resets a parameter to its default unless null is a valid value",
    access: "plans",
    body: PlanPatch,
    example: { amount: 550_000, retry_logic: { max_attempts: 4 } },
    status: 200,
    success: Plan,
    codes: ["resource_missing"],
  }),
  archive: declare({
    method: "POST",
    path: "/plans/:id/archive",
    dryRun: true,
    summary: "Archive a plan: it takes no new subscriptions",
    access: "plans",
    status: 200,
    success: Plan,
    codes: ["resource_missing"],
  }),
  unarchive: declare({
    method: "POST",
    path: "/plans/:id/unarchive",
    dryRun: true,
    summary: "Unarchive a plan",
    access: "plans",
    status: 200,
    success: Plan,
    codes: ["resource_missing"],
  }),
}
