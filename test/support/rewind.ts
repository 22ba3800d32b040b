/** Makes wall-clock time pass for an account: everything of its subscriptions moves back by as much, journals included. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { retryingDeadlocks } from "../../src/db/deadlock.ts"

const INSTANTS = {
  subscription: [
    "start_at",
    "trial_end_at",
    "anchor_at",
    "period_start_at",
    "period_end_at",
    "next_charge_at",
    "cancelled_at",
  ],
  charge: ["sent_at", "known_at", "period_start_at", "period_end_at", "next_retry_at", "created_at"],
  timer: ["due_at"],
  rail_call: ["queued_at", "sent_at"],
  rail_throttle: ["failing_since", "next_call_at"],
  refund: ["requested_at", "created_at"],
} as const

/** Fields of JSON columns that hold instants in milliseconds. */
const FIELDS = {
  bill: ["anchorAt", "periodStart", "periodEnd", "attemptedAt"],
  dunning: ["firstFailedAt", "nextRetryAt"],
  pause: ["at", "resumesAt"],
  escalation: ["triggeredAt"],
  page: ["openedAt"],
  event: ["at", "startAt", "resumesAt", "deliveredAt", "endedAt", "knownAt", "retryNotBefore"],
} as const

/** Only whole grids move as they are: daily and weekly plans. */
export const rewind = (account: string, ms: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const json = (column: keyof typeof FIELDS) =>
      `${column} = ${FIELDS[column].reduce(
        (inner, field) =>
          `CASE WHEN jsonb_typeof(${column}->'${field}') = 'number' THEN jsonb_set(${inner}, '{${field}}', to_jsonb((${column}->>'${field}')::bigint - ${ms})) ELSE ${inner} END`,
        column as string,
      )}`
    const instants = (table: keyof typeof INSTANTS) =>
      INSTANTS[table].map((column) => `${column} = ${column} - interval '${ms} milliseconds'`).join(", ")
    const mine = `WHERE account_id = '${account}'`
    const move = sql.withTransaction(
      Effect.gen(function* () {
        yield* sql.unsafe(
          `UPDATE subscription SET ${instants("subscription")}, ${json("bill")}, ${json("dunning")}, ${json("pause")}, ${json("escalation")} ${mine}`,
        )
        // A century off first: paid periods may not overlap, not even on their way.
        yield* sql.unsafe(
          `UPDATE charge SET ${instants("charge")} ${mine}`.replaceAll(" - ", " - interval '100 years' - "),
        )
        yield* sql.unsafe(
          `UPDATE charge SET ${INSTANTS.charge.map((column) => `${column} = ${column} + interval '100 years'`).join(", ")}, ${json("page")} ${mine}`,
        )
        for (const table of ["timer", "rail_call", "rail_throttle", "refund"] as const)
          yield* sql.unsafe(`UPDATE ${table} SET ${instants(table)} ${mine}`)
        yield* sql.unsafe(
          `UPDATE lifecycle_journal SET ${json("event")} ${mine} AND actor_kind IN ('subscription', 'charge', 'refund')`,
        )
      }),
    )
    // Workers go on meanwhile, and lock rows in their own order.
    yield* retryingDeadlocks(move)
  })
