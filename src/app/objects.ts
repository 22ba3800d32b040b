/** Reads objects of every kind by ID, rendered as in the API. `expand` and test events use them. */
import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { type IdKind, isPlanCode, kindOf } from "../base/ids.ts"
import type { Json } from "../base/json.ts"
import { charges, renderCharge } from "../billing/charge/charge.ts"
import { renderClock, visibleClocks } from "../billing/clock/clock.ts"
import { customers, renderCustomers } from "../billing/customer/customer.ts"
import { plans, renderPlan } from "../billing/plan/plan.ts"
import { renderSubscription, subscriptions } from "../billing/subscription/subscription.ts"
import { renderUnitRecord, unitRecords } from "../billing/subscription/units.ts"
import { renderSession, sessions } from "../buying/checkout/checkout.ts"
import { instalmentPlans, renderInstalmentPlan } from "../buying/instalment/plan.ts"
import type { Table } from "../db/table.ts"
import type { Ref, Tenant } from "../db/tenant.ts"
import type { Expanders } from "../http/expand.ts"
import { nudges, renderNudge } from "../outbound/nudge/nudge.ts"
import { endpoints, renderEndpoint } from "../outbound/webhook/endpoint.ts"

/** An object as the API shows it, and the test clock of its events. */
export interface Found {
  readonly object: Json
  readonly testClockId: string | null
}

type Find = (
  tenant: Tenant,
  ids: ReadonlyArray<string>,
) => Effect.Effect<ReadonlyMap<string, Found>, SqlError.SqlError, SqlClient.SqlClient>

/** Builds the look-up of a table's objects. */
const findIn =
  <Row extends Ref>(
    table: Pick<Table<Row>, "find">,
    clockOf: (row: Row) => string | null,
    render: (rows: ReadonlyArray<Row>) => Effect.Effect<ReadonlyArray<Json>, SqlError.SqlError, SqlClient.SqlClient>,
  ): Find =>
  (tenant, ids) =>
    Effect.flatMap(table.find(tenant, ids), (found) => {
      const rows = [...found.values()]
      return Effect.map(
        render(rows),
        (objects) =>
          new Map(rows.map((row, index) => [row.id, { object: objects[index]!, testClockId: clockOf(row) }])),
      )
    })

const each =
  <Row>(render: (row: Row) => Json) =>
  (rows: ReadonlyArray<Row>) =>
    Effect.succeed(rows.map(render))

const onClock = ({ test_clock_id }: { readonly test_clock_id: string | null }) => test_clock_id

const FIND: Partial<Readonly<Record<IdKind, Find>>> &
  Readonly<Record<"plan" | "customer" | "subscription" | "charge" | "test_clock", Find>> = {
  plan: findIn(plans, () => null, each(renderPlan)),
  customer: findIn(customers, onClock, renderCustomers),
  subscription: findIn(subscriptions, onClock, each(renderSubscription)),
  charge: findIn(charges, onClock, each(renderCharge)),
  unit_record: findIn(unitRecords, onClock, each(renderUnitRecord)),
  // The token is shown only in the response to the merchant's own request.
  checkout_session: findIn(
    sessions,
    onClock,
    each((row) => renderSession(row, null)),
  ),
  nudge: findIn(nudges, onClock, each(renderNudge)),
  test_clock: findIn(visibleClocks, ({ id }) => id, each(renderClock)),
  webhook_endpoint: findIn(endpoints, () => null, each(renderEndpoint)),
}

const findInstalmentPlans = findIn(instalmentPlans, onClock, each(renderInstalmentPlan))

/** Returns the object with this ID, of any kind; undefined if there is none. */
export const findObject = Effect.fnUntraced(function* (tenant: Tenant, id: string) {
  const kind = kindOf(id)
  const find = isPlanCode(id) ? findInstalmentPlans : kind === undefined ? undefined : FIND[kind]
  return find === undefined ? undefined : (yield* find(tenant, [id])).get(id)
})

const objectsOf =
  (find: Find): Expanders[string]["find"] =>
  (tenant, ids) =>
    Effect.map(find(tenant, ids), (found) => new Map([...found].map(([id, { object }]) => [id, object])))

/** The ID fields that can be expanded, each with the scope that it needs. Test clocks need none (decision B7). */
export const expanders: Expanders = {
  customer: { scope: "customers", find: objectsOf(FIND.customer) },
  plan: { scope: "plans", find: objectsOf(FIND.plan) },
  subscription: { scope: "subscriptions", find: objectsOf(FIND.subscription) },
  latest_charge: { scope: "charges", find: objectsOf(FIND.charge) },
  test_clock: { scope: undefined, find: objectsOf(FIND.test_clock) },
}
