/** Every endpoint, and what ID fields expand to. */
import { Effect } from "effect"
import { accountEndpoints } from "./account/http.ts"
import { renderCharge } from "./charge/Charge.ts"
import { findCharges } from "./charge/Charges.ts"
import { chargeEndpoints } from "./charge/http.ts"
import { findClocks, renderClock } from "./clock/Clocks.ts"
import { clockEndpoints } from "./clock/http.ts"
import { findCustomers, renderCustomers } from "./customer/Customers.ts"
import { customerEndpoints } from "./customer/http.ts"
import { eventEndpoints } from "./event/http.ts"
import type { Endpoint, Expander, Json } from "./http/Endpoint.ts"
import { planEndpoints } from "./plan/http.ts"
import { findPlans, renderPlan } from "./plan/Plans.ts"
import { subscriptionEndpoints } from "./subscription/http.ts"
import { renderSubscription } from "./subscription/Subscription.ts"
import { findSubscriptions } from "./subscription/Subscriptions.ts"

export const endpoints: ReadonlyArray<Endpoint> = [
  ...accountEndpoints,
  ...planEndpoints,
  ...customerEndpoints,
  ...subscriptionEndpoints,
  ...chargeEndpoints,
  ...eventEndpoints,
  ...clockEndpoints,
]

const byId = <T extends Json & { readonly id: string }>(objects: ReadonlyArray<T>): ReadonlyMap<string, Json> =>
  new Map(objects.map((object) => [object.id, object]))

const charges: Expander = (tenant, ids) => Effect.map(findCharges(tenant, ids), (rows) => byId(rows.map(renderCharge)))

export const expanders: Readonly<Record<string, Expander>> = {
  customer: (tenant, ids) => Effect.map(Effect.flatMap(findCustomers(tenant, ids), renderCustomers), byId),
  plan: (tenant, ids) => Effect.map(findPlans(tenant, ids), (rows) => byId([...rows.values()].map(renderPlan))),
  subscription: (tenant, ids) =>
    Effect.map(findSubscriptions(tenant, ids), (rows) => byId(rows.map(renderSubscription))),
  latest_charge: charges,
  test_clock: (tenant, ids) => Effect.map(findClocks(tenant, ids), (rows) => byId([...rows.values()].map(renderClock))),
}
