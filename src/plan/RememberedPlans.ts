/** What a process remembers of plans, for decisions on subscriptions (src/db/known.ts). */
import { Context, Effect, Layer, Struct } from "effect"
import { type Check, RememberedRows } from "../db/known.ts"
import { REF_COLUMNS, records } from "../db/records.ts"
import { type Ref, type Tenant, tenantOf } from "../db/tenant.ts"
import { PLAN_TERMS, type PlanRow, type PlanTerms, plans } from "./plan.ts"

/** A kilobyte each, mostly less: ten megabytes. */
const MAX_PLANS = 10_000

/** The terms alone: what else a plan has may be large. */
const termsOf = (plan: PlanTerms): PlanTerms => Struct.pick(plan, PLAN_TERMS)

const CHECKED = { ...REF_COLUMNS, updated_at: "timestamptz" } as const

/**
 * Finds those that have not changed: each change of a plan is later than the one before. Whoever changes one waits until what was decided by it
 * is written, so that its subscriptions follow; of one that is being changed nobody knows. That holds since plans are locked FOR UPDATE
 * before they change (src/plan/plans.ts).
 */
const unchanged = (known: ReadonlyArray<PlanTerms>): Check => ({
  name: "plans_known",
  rows: known.length,
  read: (sql) => sql`
    SELECT p.id FROM ${records(known, CHECKED)} r
    CROSS JOIN LATERAL (
      SELECT id FROM plan
      WHERE (account_id, livemode, id) = (r.account_id, r.livemode, r.id) AND date_trunc('milliseconds', updated_at) = r.updated_at
      FOR KEY SHARE SKIP LOCKED
    ) p`,
})

/** Plans by ID, and what checks them. */
interface KnownPlans {
  readonly plans: ReadonlyMap<string, PlanTerms>
  readonly check: Check
}

export class RememberedPlans extends Context.Service<
  RememberedPlans,
  {
    readonly note: (plans: Iterable<PlanTerms>) => void
    readonly forget: (refs: ReadonlyArray<Ref>) => void
    /** These plans; undefined where one is not known. */
    readonly find: (refs: ReadonlyArray<Ref>) => KnownPlans | undefined
  }
>()("billing/plan/RememberedPlans") {
  static readonly layer = Layer.sync(RememberedPlans, () => {
    const remembered = new RememberedRows<PlanTerms>(MAX_PLANS)
    return RememberedPlans.of({
      note: (plans) => {
        for (const plan of plans) remembered.note(termsOf(plan))
      },
      forget: (refs) => {
        for (const ref of refs) remembered.forget(ref)
      },
      find: (refs) => {
        const found = new Map<string, PlanTerms>()
        for (const ref of refs) {
          const plan = found.get(ref.id) ?? remembered.find(ref)
          if (plan === undefined) return undefined
          found.set(ref.id, plan)
        }
        return { plans: found, check: unchanged([...found.values()]) }
      },
    })
  })
}

/**
 * The tenant's plans with these IDs, by ID, for subscriptions that are about to begin: whoever changes their rules waits until those are there,
 * and so has them follow.
 */
export const plansToBegin = Effect.fnUntraced(function* (tenant: Tenant, ids: ReadonlyArray<string>) {
  const remembered = yield* RememberedPlans
  const wanted = [...new Set(ids)].map((id): Ref => ({ ...tenantOf(tenant), id }))
  const found = yield* plans.lock(wanted, "KEY SHARE")
  remembered.forget(wanted)
  remembered.note(found)
  return new Map(found.map((row): [string, PlanRow] => [row.id, row]))
})
