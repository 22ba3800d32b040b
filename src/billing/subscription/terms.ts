/** Reads the current facts that decisions on subscriptions need beside the subscriptions themselves (decision C3). */
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import type { DunningPolicy } from "../../../machines/dunning.ts"
import type { PlanFacts } from "../../../machines/events.ts"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import type { Ref } from "../../db/tenant.ts"
import type { PaymentMethodSummary, PaymentMethodType } from "../../rails/rail/PaymentRail.ts"
import type { RailName } from "../../rails/rail/Rail.ts"
import type { RetryLogic } from "../plan/api.ts"
import { PLAN_TERMS, type PlanTerms } from "../plan/plan.ts"
import type { SubscriptionRow } from "./subscription.ts"

/** The plan's rules, and the payment method to charge. */
export interface Terms {
  readonly id: string
  readonly retry_logic: RetryLogic
  readonly overage_per_unit_kobo: number | null
  readonly pause_enabled: boolean
  readonly pro_rate: boolean
  /** The subscription's payment method, else the customer's default; null if neither exists. */
  readonly payment_method: PaymentMethodSummary | null
  /** The rail of that method; without a method, the account's current rail. */
  readonly rail: RailName
}

/** The method's columns are null if there is no method. */
interface TermsRow extends Omit<Terms, "payment_method">, Omit<PaymentMethodSummary, "id" | "type"> {
  readonly method_id: string | null
  readonly method_type: PaymentMethodType | null
}

const termsOf = ({
  method_id,
  method_type,
  brand,
  last4,
  bank_name,
  exp_month,
  exp_year,
  ...terms
}: TermsRow): Terms => ({
  ...terms,
  payment_method:
    method_id === null ? null : { id: method_id, type: method_type!, brand, last4, bank_name, exp_month, exp_year },
})

/**
 * Reads the terms of these subscriptions, by subscription ID. OFFSET 0 forces a lookup by key: otherwise a plan made on small tables scans
 * the whole account.
 */
export const readTerms = Effect.fnUntraced(function* (refs: ReadonlyArray<Ref>) {
  if (refs.length === 0) return new Map<string, Terms>()
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<TermsRow>`
    SELECT s.id, p.retry_logic, p.overage_per_unit_kobo, p.pause_enabled, p.pro_rate,
      m.id AS method_id, m.type AS method_type, m.brand, m.last4, m.bank_name, m.exp_month, m.exp_year,
      coalesce(m.rail, CASE WHEN s.livemode THEN a.rail ELSE 'simulator' END) AS rail
    FROM ${rowsAsTable(refs, REF_COLUMNS)} r
    CROSS JOIN LATERAL (SELECT * FROM subscription WHERE (account_id, livemode, id) = (r.account_id, r.livemode, r.id) OFFSET 0) s
    CROSS JOIN LATERAL (SELECT * FROM plan WHERE (account_id, livemode, id) = (s.account_id, s.livemode, s.plan_id) OFFSET 0) p
    LEFT JOIN LATERAL (
      SELECT default_payment_method_id FROM customer
      WHERE s.payment_method_id IS NULL AND (account_id, livemode, id) = (s.account_id, s.livemode, s.customer_id) OFFSET 0
    ) c ON true
    LEFT JOIN LATERAL (
      SELECT * FROM payment_method
      WHERE (account_id, livemode, customer_id, id)
        = (s.account_id, s.livemode, s.customer_id, coalesce(s.payment_method_id, c.default_payment_method_id)) OFFSET 0
    ) m ON true
    LEFT JOIN LATERAL (SELECT rail FROM account WHERE s.livemode AND m.id IS NULL AND id = s.account_id OFFSET 0) a ON true`
  return new Map(rows.map((row) => [row.id, termsOf(row)]))
})

/** The price of units that wait to be billed, as the facts of an event; empty if no units wait. */
export const unitFacts = ({ units }: SubscriptionRow, { overage_per_unit_kobo: unitKobo }: Terms): PlanFacts =>
  units > 0 && unitKobo !== null ? { unitKobo } : {}

/** The dunning policy of these terms. */
export const policyOf = ({ retry_logic: rules }: Terms): DunningPolicy => ({
  maxAttempts: rules.enabled ? rules.max_attempts : 0,
  intervalsDays: rules.retry_intervals_days,
  escalation: rules.escalation_on_failure,
  cancelAfterDays: rules.cancel_after_days_unpaid,
})

/** The rules of plans, by plan ID. */
export type RulesOfPlans = ReadonlyMap<string, PlanTerms>

const NO_RULES: RulesOfPlans = new Map()

const TERMS_OF_PLAN = PLAN_TERMS.map((name) => `p.${name}`).join(", ")

/** Reads the rules of the plans in `keys`, a table expression with their keys. */
const rulesOf = (sql: SqlClient.SqlClient, keys: Fragment): Effect.Effect<RulesOfPlans, SqlError.SqlError> =>
  Effect.map(
    sql<PlanTerms>`
      SELECT ${sql.literal(TERMS_OF_PLAN)} FROM ${keys} k
      CROSS JOIN LATERAL (SELECT * FROM plan WHERE (account_id, livemode, id) = (k.account_id, k.livemode, k.id) OFFSET 0) p`,
    (found) => new Map(found.map((plan) => [plan.id, plan])),
  )

/** Reads the rules of these subscriptions' plans. */
export const readRules = Effect.fnUntraced(function* (rows: ReadonlyArray<SubscriptionRow>) {
  const plans = new Map(rows.map(({ account_id, livemode, plan_id: id }) => [id, { account_id, livemode, id }]))
  if (plans.size === 0) return NO_RULES
  const sql = yield* SqlClient.SqlClient
  return yield* rulesOf(sql, rowsAsTable([...plans.values()], REF_COLUMNS))
})

/** The same for subscriptions whose rows are not read yet. */
export const readRulesOf = Effect.fnUntraced(function* (refs: ReadonlyArray<Ref>) {
  if (refs.length === 0) return NO_RULES
  const sql = yield* SqlClient.SqlClient
  return yield* rulesOf(
    sql,
    sql`(
      SELECT DISTINCT s.account_id, s.livemode, s.plan_id AS id FROM ${rowsAsTable(refs, REF_COLUMNS)} r CROSS JOIN LATERAL (
        SELECT account_id, livemode, plan_id FROM subscription WHERE (account_id, livemode, id) = (r.account_id, r.livemode, r.id) OFFSET 0
      ) s
    )`,
  )
})
