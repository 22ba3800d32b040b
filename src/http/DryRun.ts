/**
 * DryRun runs a request as a real one and undoes it (decision S1): the same code decides it in one transaction that is rolled back, with payments
 * answered by an assumption.
 */
import { Context, type Effect } from "effect"
import type { Json } from "../base/json.ts"
import type { TenantDatabase } from "../db/TenantDatabase.ts"
import type { Tenant } from "../db/tenant.ts"
import type { Failure } from "./failures.ts"

/** How all payments of a dry run end. */
export const ASSUMPTIONS = ["success", "failure"] as const
export type Assumption = (typeof ASSUMPTIONS)[number]

export interface DryRunOptions {
  /** Undefined: test methods answer as always, and other payments succeed. */
  readonly assume: Assumption | undefined
}

export class DryRun extends Context.Service<
  DryRun,
  {
    /** Runs the work of a request. Returns its result, and what the request would have created. */
    readonly run: <A, R>(
      tenant: Tenant,
      options: DryRunOptions,
      work: Effect.Effect<A, Failure, R>,
    ) => Effect.Effect<{ readonly result: A; readonly changes: Json }, Failure, R | TenantDatabase>
  }
>()("billing/http/DryRun") {}
