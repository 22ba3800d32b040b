/** Plans on the wire. */
import { Schema } from "effect"
import { BILLING_CYCLES } from "../../machines/calendar.ts"
import { ESCALATION_RULES } from "../../machines/dunning.ts"
import { CHANNELS } from "../../machines/nudge.ts"
import { declare } from "../http/Endpoint.ts"
import { pageFields } from "../http/lists.ts"
import {
  amount,
  currency,
  flag,
  freeObject,
  integer,
  metadata,
  metadataPatch,
  oneOf,
  text,
  textOrNull,
} from "../http/parameters.ts"
import { common, exampleId, instant, kobo, metadata as metadataShown, open } from "../http/response.ts"
import { MAX_AMOUNT_KOBO } from "../money.ts"

const { Boolean: Bool, Int, Literal, Literals, NullOr, optionalKey, String: Text } = Schema

export const PLAN_STATUSES = ["active", "archived"] as const

/** More days than a rule can use. */
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

const orNull = <S extends Schema.Top>(schema: S) => optionalKey(NullOr(schema))
const retryLogicPatch = Schema.Struct({
  enabled: orNull(flag),
  max_attempts: orNull(integer(0, 8)),
  retry_intervals_days: orNull(days(30)),
  escalation_on_failure: orNull(escalation),
  cancel_after_days_unpaid: optionalKey(retryLogicFields.cancel_after_days_unpaid),
}).annotate({ description: "an object with the retry rules" })
const remindersPatch = Schema.Struct({
  enabled: orNull(flag),
  channels: orNull(channels),
  pre_due_days: orNull(days(30)),
  post_due_days: orNull(days(60)),
}).annotate({ description: "an object with the reminder rules" })

export const RetryLogic = Schema.Struct(retryLogicFields)
export type RetryLogic = typeof RetryLogic.Type
export const Reminders = Schema.Struct(remindersFields)
export type Reminders = typeof Reminders.Type

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
  trial_days: optionalKey(integer(0, 365)),
  pause_enabled: optionalKey(flag),
  pro_rate: optionalKey(flag),
  overage_per_unit: optionalKey(overage),
  category: optionalKey(textOrNull(60)),
  service_config: optionalKey(serviceConfig),
  retry_logic: optionalKey(retryLogicPatch),
  reminders: optionalKey(remindersPatch),
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
  retry_logic: orNull(retryLogicPatch),
  reminders: orNull(remindersPatch),
  metadata: optionalKey(metadataPatch),
})
export type PlanPatch = typeof PlanPatch.Type

const PlanList = Schema.Struct({ ...pageFields, status: optionalKey(oneOf(PLAN_STATUSES)) })

export const planApi = {
  create: declare({
    method: "POST",
    path: "/plans",
    summary: "Create a plan",
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
    summary: "Update a plan",
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
    summary: "Archive a plan: it takes no new subscriptions",
    access: "plans",
    status: 200,
    success: Plan,
    codes: ["resource_missing"],
  }),
  unarchive: declare({
    method: "POST",
    path: "/plans/:id/unarchive",
    summary: "Unarchive a plan",
    access: "plans",
    status: 200,
    success: Plan,
    codes: ["resource_missing"],
  }),
}
