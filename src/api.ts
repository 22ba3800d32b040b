/** Every endpoint, and what ID fields expand to. */
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { accountEndpoints } from "./account/http.ts"
import { renderCharge } from "./charge/Charge.ts"
import { findCharges } from "./charge/Charges.ts"
import { chargeEndpoints } from "./charge/http.ts"
import { findClocks, renderClock } from "./clock/Clocks.ts"
import { clockEndpoints } from "./clock/http.ts"
import { findCustomers, renderCustomers } from "./customer/Customers.ts"
import { customerEndpoints } from "./customer/http.ts"
import type { Tenant } from "./db/tenant.ts"
import { eventEndpoints } from "./event/http.ts"
import type { Endpoint, Expander, Json } from "./http/Endpoint.ts"
import type { PublicPage } from "./http/public.ts"
import { type IdKind, kindOf } from "./ids.ts"
import { invoiceEndpoints, invoicePages } from "./invoice/http.ts"
import { nudgeCallbacks, nudgeEndpoints } from "./nudge/http.ts"
import { renderNudge } from "./nudge/Nudge.ts"
import { findNudges } from "./nudge/rows.ts"
import { paymentMethodEndpoints } from "./payment_method/http.ts"
import { planEndpoints } from "./plan/http.ts"
import { findPlans, renderPlan } from "./plan/Plans.ts"
import { providerEndpoints } from "./provider/http.ts"
import { type Finder, sandboxEndpoints } from "./sandbox/http.ts"
import { collect, recoverCharges } from "./subscription/collect.ts"
import { subscriptionEndpoints } from "./subscription/http.ts"
import { methodRemoved, methodSet } from "./subscription/methods.ts"
import { planAnew } from "./subscription/reminding.ts"
import { retryBill } from "./subscription/retry.ts"
import { renderSubscription } from "./subscription/Subscription.ts"
import { findSubscriptions } from "./subscription/Subscriptions.ts"
import { subjects } from "./subscription/subjects.ts"
import { getUnitRecord } from "./subscription/units.ts"
import { usageEndpoints } from "./usage/http.ts"
import { webhookEndpoints } from "./webhook/http.ts"

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

const unitRecords: Expander = (tenant, ids) =>
  Effect.map(
    Effect.forEach(ids, (id) => Effect.option(getUnitRecord(tenant, id))),
    (found) => byId(found.flatMap((record) => (Option.isSome(record) ? [record.value] : []))),
  )

/** What an ID can stand for: how to read it, and where it says which clock it is on. */
const KINDS: Partial<Readonly<Record<IdKind, { readonly read: Expander; readonly clock: string | null }>>> = {
  plan: { read: expanders.plan!, clock: null },
  customer: { read: expanders.customer!, clock: "test_clock_id" },
  subscription: { read: expanders.subscription!, clock: "test_clock_id" },
  charge: { read: charges, clock: "test_clock_id" },
  unit_record: { read: unitRecords, clock: "test_clock_id" },
  nudge: {
    read: (tenant, ids) => Effect.map(findNudges(tenant, ids), (rows) => byId(rows.map(renderNudge))),
    clock: "test_clock_id",
  },
  test_clock: { read: expanders.test_clock!, clock: "id" },
}

const find: Finder = (tenant: Tenant, id) =>
  Effect.gen(function* () {
    const kind = kindOf(id)
    const known = kind === undefined ? undefined : KINDS[kind]
    const object = known === undefined ? undefined : (yield* known.read(tenant, [id])).get(id)
    if (kind === undefined || known === undefined || object === undefined) return undefined
    if (known.clock === null) return { object, testClockId: null }
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ clock: string | null }>`
      SELECT ${sql(known.clock)} AS clock FROM ${sql(kind)} WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ${id}`
    return { object, testClockId: row?.clock ?? null }
  })

export const publicPages: ReadonlyArray<PublicPage> = [...invoicePages, ...nudgeCallbacks]

export const endpoints: ReadonlyArray<Endpoint> = [
  ...accountEndpoints,
  ...planEndpoints(planAnew),
  ...customerEndpoints({ methodSet, methodRemoved, recover: (customerId) => recoverCharges({ customerId }) }),
  ...paymentMethodEndpoints,
  ...subscriptionEndpoints,
  ...chargeEndpoints({ collect, recover: (chargeId) => recoverCharges({ chargeId }), retryBill }),
  ...nudgeEndpoints(subjects),
  ...eventEndpoints,
  ...webhookEndpoints,
  ...clockEndpoints,
  ...sandboxEndpoints(find),
  ...usageEndpoints,
  ...invoiceEndpoints,
  ...providerEndpoints,
]
