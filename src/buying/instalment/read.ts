/** Reads the data behind a buyer's link. */
import { Effect } from "effect"
import { charges } from "../../billing/charge/charge.ts"
import { customers } from "../../billing/customer/customer.ts"
import { TenantDatabase } from "../../db/TenantDatabase.ts"
import { tenantOf } from "../../db/tenant.ts"
import { contextOf } from "../payment_page/context.ts"
import { savedMethods } from "../payment_page/saved.ts"
import { findPlan } from "./find.ts"
import { instalmentPlans } from "./plan.ts"

/** Reads everything that the pages of a plan show. Buyers can pay and cancel no matter which business type the merchant has now. */
export const readPlan = Effect.fnUntraced(function* (token: string) {
  const { reading } = yield* TenantDatabase
  const { account_id, livemode, id } = yield* findPlan(token)
  const tenant = tenantOf({ account_id, livemode })
  return yield* reading(
    tenant,
    Effect.gen(function* () {
      const plan = yield* instalmentPlans.get(tenant, id)
      const customer = yield* customers.get(tenant, plan.customer_id)
      const context = yield* contextOf(tenant, plan.test_clock_id)
      return {
        token,
        plan,
        customer,
        path: `/save/${encodeURIComponent(token)}`,
        context,
        saved: yield* savedMethods(customer, context.now),
        /** The payment in progress, else the newest attempt. */
        charge: plan.charge_id === null ? undefined : yield* charges.get(tenant, plan.charge_id),
      }
    }),
  )
})

export type ReadPlan = Effect.Success<ReturnType<typeof readPlan>>
