/** The fields of a plan: all parameters of the API, in groups. */
import { BILLING_CYCLES } from "../../machines/calendar.ts"
import { ESCALATION_RULES } from "../../machines/dunning.ts"
import { CHANNELS } from "../../machines/nudge.ts"
import { PLAN_DEFAULTS, type Plan } from "../billing/plan/api.ts"
import type { Typed } from "../pages/dashboard/fields.ts"
import { CHANNEL_NAMES } from "../pages/dashboard/nudgeWords.ts"
import { ESCALATION_WORDS } from "../pages/dashboard/planWords.ts"
import { every } from "../pages/words.ts"
import { type Input, nairaTyped, pairsTyped } from "./inputs.ts"

const RETRIES = "When a payment fails"
const REMINDERS = "Reminders"
const MORE = "More"

const NAME: Input = { name: "name", label: "Name", kind: "text", isRequired: true, maxlength: 120, whenEmpty: "empty" }
const DESCRIPTION: Input = {
  name: "description",
  label: "Description",
  kind: "text",
  maxlength: 500,
  whenEmpty: "null",
}
const AMOUNT: Input = { name: "amount", label: "Price", kind: "naira", isRequired: true }
const CYCLE: Input = {
  name: "billing_cycle",
  label: "Charged",
  kind: "select",
  choices: BILLING_CYCLES.map((value) => ({ value, label: every(value) })),
  isRequired: true,
}
const CATEGORY: Input = { name: "category", label: "Category", kind: "text", maxlength: 60, group: MORE }

const TERMS: ReadonlyArray<Input> = [
  { name: "trial_days", label: "Trial days", kind: "number", hint: "0: no trial" },
  {
    name: "overage_per_unit",
    label: "Price of a reported unit",
    kind: "naira",
    hint: "Empty: units cost nothing",
    whenEmpty: "null",
  },
  { name: "pause_enabled", label: "Subscriptions can be paused", kind: "checkbox" },
  { name: "pro_rate", label: "The unused rest of a paused period is credited", kind: "checkbox" },
]

const RULES: ReadonlyArray<Input> = [
  { name: "retry_logic.enabled", label: "Try failed payments again", kind: "checkbox", group: RETRIES },
  { name: "retry_logic.max_attempts", label: "Most retries", kind: "number", hint: "0 to 8", group: RETRIES },
  {
    name: "retry_logic.retry_intervals_days",
    label: "Days between tries",
    kind: "text",
    hint: "Such as 1, 3, 7",
    as: "numbers",
    whenEmpty: "empty",
    group: RETRIES,
  },
  {
    name: "retry_logic.escalation_on_failure",
    label: "If all tries fail",
    kind: "select",
    choices: ESCALATION_RULES.map((value) => ({ value, label: ESCALATION_WORDS[value] })),
    isRequired: true,
    group: RETRIES,
  },
  {
    name: "retry_logic.cancel_after_days_unpaid",
    label: "Cancel after days unpaid",
    kind: "number",
    hint: "1 to 180. Empty: never",
    whenEmpty: "null",
    group: RETRIES,
  },
  { name: "reminders.enabled", label: "Send reminders", kind: "checkbox", group: REMINDERS },
  {
    name: "reminders.channels",
    label: "Channels",
    kind: "checkboxes",
    choices: CHANNELS.map((value) => ({ value, label: CHANNEL_NAMES[value] })),
    hint: "They are tried in this order",
    group: REMINDERS,
  },
  {
    name: "reminders.pre_due_days",
    label: "Days before a charge",
    kind: "text",
    hint: "Such as 3, 1",
    as: "numbers",
    whenEmpty: "empty",
    group: REMINDERS,
  },
  {
    name: "reminders.post_due_days",
    label: "Days after a failed payment",
    kind: "text",
    hint: "Such as 1, 3",
    as: "numbers",
    whenEmpty: "empty",
    group: REMINDERS,
  },
]

const EXTRAS: ReadonlyArray<Input> = [
  {
    name: "service_config",
    label: "Service configuration",
    kind: "textarea",
    hint: 'An object of JSON, such as {"seats": 5}',
    as: "object",
    group: MORE,
  },
  { name: "metadata", label: "Metadata", kind: "lines", hint: "One key=value in each line", group: MORE },
]

export const CREATED_FIELDS: ReadonlyArray<Input> = [
  NAME,
  DESCRIPTION,
  AMOUNT,
  CYCLE,
  ...TERMS,
  ...RULES,
  CATEGORY,
  ...EXTRAS,
]

export const CHANGED_FIELDS: ReadonlyArray<Input> = [NAME, DESCRIPTION, AMOUNT, ...TERMS, ...RULES, ...EXTRAS]

type Terms = Pick<
  typeof Plan.Type,
  "trial_days" | "pause_enabled" | "pro_rate" | "service_config" | "retry_logic" | "reminders"
>

const termsTyped = ({ trial_days, pause_enabled, pro_rate, service_config, retry_logic, reminders }: Terms) =>
  [
    ["trial_days", [String(trial_days)]],
    ["pause_enabled", [String(pause_enabled)]],
    ["pro_rate", [String(pro_rate)]],
    ["service_config", [JSON.stringify(service_config)]],
    ["retry_logic.enabled", [String(retry_logic.enabled)]],
    ["retry_logic.max_attempts", [String(retry_logic.max_attempts)]],
    ["retry_logic.retry_intervals_days", [retry_logic.retry_intervals_days.join(", ")]],
    ["retry_logic.escalation_on_failure", [retry_logic.escalation_on_failure]],
    ["retry_logic.cancel_after_days_unpaid", [String(retry_logic.cancel_after_days_unpaid ?? "")]],
    ["reminders.enabled", [String(reminders.enabled)]],
    ["reminders.channels", reminders.channels],
    ["reminders.pre_due_days", [reminders.pre_due_days.join(", ")]],
    ["reminders.post_due_days", [reminders.post_due_days.join(", ")]],
  ] as const

/** A new plan as the form shows it first: with the defaults of the API. */
export const NEW_PLAN: Typed = new Map<string, ReadonlyArray<string>>([
  ["billing_cycle", ["monthly"]],
  ...termsTyped(PLAN_DEFAULTS),
])

/** A plan as its form shows it. */
export const planTyped = (plan: typeof Plan.Type): Typed =>
  new Map<string, ReadonlyArray<string>>([
    ["name", [plan.name]],
    ["description", [plan.description ?? ""]],
    ["amount", [nairaTyped(plan.amount)]],
    ["overage_per_unit", [plan.overage_per_unit === null ? "" : nairaTyped(plan.overage_per_unit)]],
    ["metadata", [pairsTyped(plan.metadata)]],
    ...termsTyped(plan),
  ])
