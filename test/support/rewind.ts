/** Makes wall-clock time pass for an account: everything of its subscriptions moves back by as much, journals included. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

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
} as const

/** Fields of JSON columns that hold instants in milliseconds. */
const FIELDS = {
  bill: ["anchorAt", "periodStart", "periodEnd", "attemptedAt"],
  dunning: ["firstFailedAt", "nextRetryAt"],
  pause: ["at", "resumesAt"],
  escalation: ["triggeredAt"],
  event: ["at", "startAt", "resumesAt", "deliveredAt"],
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
    yield* sql.withTransaction(
      Effect.gen(function* () {
        yield* sql.unsafe(
          `UPDATE subscription SET ${instants("subscription")}, ${json("bill")}, ${json("dunning")}, ${json("pause")}, ${json("escalation")} ${mine}`,
        )
        // A century off first: paid periods may not overlap, not even on their way.
        yield* sql.unsafe(
          `UPDATE charge SET ${instants("charge")} ${mine}`.replaceAll(" - ", " - interval '100 years' - "),
        )
        yield* sql.unsafe(
          `UPDATE charge SET ${INSTANTS.charge.map((column) => `${column} = ${column} + interval '100 years'`).join(", ")} ${mine}`,
        )
        yield* sql.unsafe(`UPDATE timer SET ${instants("timer")} ${mine}`)
        yield* sql.unsafe(`UPDATE lifecycle_journal SET ${json("event")} ${mine}`)
      }),
    )
  })
