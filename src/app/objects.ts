/** Objects of every kind by their IDs, as the API shows them: what ID fields expand to, and what test events are about. */
import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { type IdKind, isPlanCode, kindOf } from "../base/ids.ts"
import type { Json } from "../base/json.ts"
import { charges, renderCharge } from "../billing/charge/charge.ts"
import { knownClocks, renderClock } from "../billing/clock/clock.ts"
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

/** An object as the API shows it, and the clock that its events belong to. */
export interface Found {
  readonly object: Json
  readonly testClockId: string | null
}

type Find = (
  tenant: Tenant,
  ids: ReadonlyArray<string>,
) => Effect.Effect<ReadonlyMap<string, Found>, SqlError.SqlError, SqlClient.SqlClient>

/** How the objects of a table are found. */
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
  // What is not its merchant's own request shows no token.
  checkout_session: findIn(
    sessions,
    onClock,
    each((row) => renderSession(row, null)),
  ),
  nudge: findIn(nudges, onClock, each(renderNudge)),
  test_clock: findIn(knownClocks, ({ id }) => id, each(renderClock)),
  webhook_endpoint: findIn(endpoints, () => null, each(renderEndpoint)),
}

const findInstalmentPlans = findIn(instalmentPlans, onClock, each(renderInstalmentPlan))

/** The object with this ID, of whatever kind it is; undefined where there is none. */
export const findObject = Effect.fnUntraced(function* (tenant: Tenant, id: string) {
  const kind = kindOf(id)
  const find = isPlanCode(id) ? findInstalmentPlans : kind === undefined ? undefined : FIND[kind]
  return find === undefined ? undefined : (yield* find(tenant, [id])).get(id)
})

const shown =
  (find: Find): Expanders[string]["find"] =>
  (tenant, ids) =>
    Effect.map(find(tenant, ids), (found) => new Map([...found].map(([id, { object }]) => [id, object])))

/** What ID fields expand to, with the scope by which it is read; test clocks are in none (decision B7). */
export const expanders: Expanders = {
  customer: { scope: "customers", find: shown(FIND.customer) },
  plan: { scope: "plans", find: shown(FIND.plan) },
  subscription: { scope: "subscriptions", find: shown(FIND.subscription) },
  latest_charge: { scope: "charges", find: shown(FIND.charge) },
  test_clock: { scope: undefined, find: shown(FIND.test_clock) },
}
