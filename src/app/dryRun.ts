/** Dry runs (decision S1): a request in one transaction that is rolled back, and what it would have created. */
import { Data, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { Json } from "../base/json.ts"
import { formatInstant } from "../base/time.ts"
import { type ChargeRow, charges, renderCharge } from "../billing/charge/charge.ts"
import { assumedPayments } from "../billing/payments/assumedPayments.ts"
import { Payments } from "../billing/payments/Payments.ts"
import type { CollectServices } from "../billing/payments/simulatorCharges.ts"
import { FairSemaphore } from "../concurrency/FairSemaphore.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { type Tenant, tenantName } from "../db/tenant.ts"
import { unitOfWork } from "../db/UnitOfWork.ts"
import { DryRun, type DryRunOptions } from "../http/DryRun.ts"
import type { Failure } from "../http/failures.ts"
import type { NewEntry } from "../ledger/ledger.ts"
import { nudges } from "../outbound/nudge/nudge.ts"
import { type Recorded, record } from "../runtime/commit.ts"
import { NewestRows, type Outcome } from "../runtime/outcome.ts"

/** How many dry runs may run at the same time, in all and of one tenant: its real writes still get connections while these wait for locks. */
const AT_ONCE = 12
const SHARE = 3

/** Ends a dry run: its transaction is rolled back. */
class RolledBack<A> extends Data.TaggedError("RolledBack")<{ readonly result: A; readonly changes: Json }> {}

const entryOf = ({ event, lines }: NewEntry): Json => ({
  kind: event,
  lines: lines.map(({ account, amountKobo }) => ({
    account,
    debit: Math.max(amountKobo, 0),
    credit: Math.max(-amountKobo, 0),
  })),
})

/** The timers that are set at the end, in the order in which they were set. */
const timersOf = (outcomes: ReadonlyArray<Outcome>): ReadonlyArray<Json> => {
  const set = new Map<string, Json>()
  for (const { timers } of outcomes) {
    for (const { actor_id, name } of timers.clear) set.delete(`${actor_id} ${name}`)
    for (const { actor_id, name, due_at } of timers.set)
      set.set(`${actor_id} ${name}`, { name, at: formatInstant(due_at) })
  }
  return [...set.values()]
}

/** The charges that are new, or that the API shows differently, as they are at the end. */
const chargesOf = (outcomes: ReadonlyArray<Outcome>, newest: NewestRows): ReadonlyArray<Json> => {
  const shown = new Map<string, string | undefined>()
  for (const { table, row, before } of outcomes)
    if (table.name === charges.name && !shown.has(row.id))
      // The rows of a table have its type.
      shown.set(row.id, before === undefined ? undefined : JSON.stringify(renderCharge(before as ChargeRow)))
  return [...shown].flatMap(([id, before]) => {
    const charge = renderCharge(newest.get(charges, id)!)
    return JSON.stringify(charge) === before ? [] : [charge]
  })
}

/** Renders what outcomes have created. */
const changesOf = ({ outcomes, timers }: Recorded): Json => {
  const newest = new NewestRows()
  newest.note(outcomes)
  const newNudges = [...new Set(outcomes.flatMap(({ table, row }) => (table.name === nudges.name ? [row.id] : [])))]
  return {
    charges: chargesOf(outcomes, newest),
    refunds: [],
    events: outcomes.flatMap(({ events }) =>
      events.map(({ type, object, previous }) => ({ type, object, previous_attributes: previous })),
    ),
    ledger_entries: outcomes.flatMap(({ entries }) => entries.map(entryOf)),
    nudges: newNudges.map((id) => {
      const { template, channel, send_at, created_at } = newest.get(nudges, id)!
      return { template, channel, at: formatInstant(send_at ?? created_at) }
    }),
    timers: [...timersOf(outcomes), ...timers.map(({ name, due_at }) => ({ name, at: formatInstant(due_at) }))],
  }
}

export const dryRunLayer: Layer.Layer<DryRun, never, CollectServices> = Layer.effect(
  DryRun,
  Effect.gen(function* () {
    const context = yield* Effect.context<CollectServices>()
    const sql = yield* SqlClient.SqlClient
    const slots = new FairSemaphore(AT_ONCE, SHARE)
    // The last writes are sent too: the database may refuse them.
    const sent = Effect.asVoid(sql`SELECT 1`)
    const run: DryRun["Service"]["run"] = Effect.fnUntraced(function* <A, R>(
      tenant: Tenant,
      { assume }: DryRunOptions,
      work: Effect.Effect<A, Failure, R>,
    ) {
      const database = yield* TenantDatabase
      const payments = yield* Effect.provide(assumedPayments(assume), context)
      const within = TenantDatabase.of({
        ...database,
        reading: (_, read) => read,
        writing: (_, write) => Effect.tap(write, () => sent),
      })
      const provided = work.pipe(
        Effect.provideService(TenantDatabase, within),
        Effect.provideService(Payments, payments),
      ) as Effect.Effect<A, Failure, R>
      const rolledBack = Effect.gen(function* () {
        const recorded = record(yield* unitOfWork)
        const result = yield* provided
        yield* sent
        return yield* new RolledBack({ result, changes: changesOf(recorded) })
      })
      return yield* Effect.catchIf(
        slots.within(tenantName(tenant), database.writing(tenant, rolledBack)),
        (error) => error instanceof RolledBack,
        (done: RolledBack<A>) => Effect.succeed(done),
      )
    })
    return DryRun.of({ run })
  }),
)
