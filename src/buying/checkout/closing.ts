/**
 * Closes sessions that end without being completed: by time, by request, with their cancelled subscription, or because the buyer completed
 * another one for the same plan. The subscription that waits for a session ends with it (decision G3). Lock order, as everywhere: clocks,
 * customers, sessions, subscriptions, charges.
 */
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { CheckoutEvent, checkoutMachine } from "../../../machines/checkout.ts"
import { waitsForCheckout } from "../../../machines/status.ts"
import { problem } from "../../base/problem.ts"
import { formatInstant, type NowOf, sameForAll } from "../../base/time.ts"
import { clockTime } from "../../billing/clock/clocks.ts"
import { Checkouts } from "../../billing/subscription/Checkouts.ts"
import { subscriptionLifecycle, subscriptions } from "../../billing/subscription/subscription.ts"
import { outcomesOf, type TransitionServices } from "../../billing/subscription/transition.ts"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import type { LockMode } from "../../db/statementTexts.ts"
import type { Ref, Tenant } from "../../db/tenant.ts"
import { commit } from "../../runtime/commit.ts"
import { type Due, timerHandler } from "../../runtime/fire.ts"
import { advance } from "../../runtime/lifecycle.ts"
import { checkoutLifecycle, type SessionRow, sessions } from "./checkout.ts"
import { sessionOutcome } from "./outcome.ts"

interface Closing {
  /** Locked. */
  readonly row: SessionRow
  readonly event: CheckoutEvent
  /** The session that was completed instead. */
  readonly replacedBy?: string
}

/** Returns the subscriptions of sessions. */
export const subscriptionRefs = (rows: ReadonlyArray<SessionRow>): ReadonlyArray<Ref> =>
  rows.flatMap(({ account_id, livemode, subscription_id: id }) => (id === null ? [] : [{ account_id, livemode, id }]))

/** Closes locked sessions, and the subscriptions that wait for them. */
export const closeSessions = Effect.fnUntraced(function* (closing: ReadonlyArray<Closing>, nowOf: NowOf) {
  const transitions = advance(checkoutLifecycle, closing)
  const replacedBy = new Map(closing.map((one) => [one.row.id, one.replacedBy ?? null]))
  const at = new Map(transitions.map(({ row, event }) => [row.subscription_id, event.at]))
  const waiting = yield* subscriptions.lock(subscriptionRefs(transitions.map(({ row }) => row)))
  const commands = waiting
    .filter(({ state }) => waitsForCheckout(state))
    .map((row) => ({ row, event: { type: "checkout_expired" as const, at: at.get(row.id)! } }))
  const { outcomes } = yield* outcomesOf(advance(subscriptionLifecycle, commands), { nowOf, terms: new Map() })
  yield* commit([
    ...outcomes,
    ...transitions.map((transition) => {
      const { row } = transition
      return sessionOutcome(transition, { replaced_by: replacedBy.get(row.id)! }, nowOf(row))
    }),
  ])
})

/** Expires sessions by time. */
export const checkoutTimers = timerHandler(
  checkoutLifecycle,
  Effect.fnUntraced(function* (due: ReadonlyArray<Due<typeof checkoutMachine, SessionRow>>, nowOf: NowOf) {
    yield* closeSessions(due, nowOf)
    return Effect.void
  }),
)

/** Explains why a session is not open any more. */
export const endedInWords = ({ status, completed_at, expires_at, replaced_by }: SessionRow): string => {
  if (status === "completed") return `The checkout session was completed at ${formatInstant(completed_at!)}.`
  if (replaced_by !== null) return `The buyer completed another session for the same plan instead: ${replaced_by}.`
  return `The checkout session is expired: it was open until ${formatInstant(expires_at)} at the latest.`
}

/** Expires an open session by request, even during a payment: a payment that arrives later is owed back (decision E15). */
export const expireSession = Effect.fn("checkout.expire")(function* (tenant: Tenant, id: string) {
  const found = yield* sessions.get(tenant, id)
  const now = yield* clockTime(tenant, found.test_clock_id)
  const row = yield* sessions.lockOne(tenant, id)
  if (row.status !== "open") return yield* problem("checkout_session_not_open", endedInWords(row))
  yield* closeSessions([{ row, event: { type: "expire", at: now } }], sameForAll(now))
  return yield* sessions.get(tenant, id)
})

/** Locks the open sessions of subscriptions, in the order of session IDs. */
const lockOpen = Effect.fnUntraced(function* (of: ReadonlyArray<Ref>, mode: LockMode = "UPDATE", only = "true") {
  if (of.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  return yield* sql<SessionRow>`
      SELECT s.* FROM (
        SELECT o.* FROM ${rowsAsTable(of, REF_COLUMNS)} r CROSS JOIN LATERAL (
          SELECT account_id, livemode, id FROM checkout_session
          WHERE (account_id, livemode, subscription_id) = (r.account_id, r.livemode, r.id) AND status = 'open' OFFSET 0
        ) o ORDER BY o.id
      ) k CROSS JOIN LATERAL (
        SELECT * FROM checkout_session
        WHERE (account_id, livemode, id) = (k.account_id, k.livemode, k.id) AND status = 'open' AND ${sql.literal(only)}
        FOR ${sql.literal(mode)}
      ) s`
})

/** Closes the session of a subscription that is cancelled while it waits. */
export const checkoutsLayer = Layer.effect(
  Checkouts,
  Effect.map(Effect.context<TransitionServices>(), (context) =>
    Checkouts.of({
      lock: (...which) => Effect.map(lockOpen(...which), (rows) => rows.map((row) => row.subscription_id!)),
      close: Effect.fnUntraced(function* (of, nowOf) {
        const rows = yield* lockOpen(of)
        const closing = rows.map((row) => ({ row, event: { type: "expire" as const, at: nowOf(row) } }))
        yield* Effect.provideContext(closeSessions(closing, nowOf), context)
      }),
    }),
  ),
)
