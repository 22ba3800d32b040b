/** Stores the simulator's attempts in Postgres. */
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { names, rowsAsTable } from "../db/rows.ts"
import { LOCKS } from "../postgres/advisoryLocks.ts"
import type { FailureCode, RailCharge } from "../rails/rail/PaymentRail.ts"
import { type Attempt, Attempts } from "../rails/rail/simulator/Attempts.ts"
import { COUNTED } from "../rails/rail/simulator/methods.ts"

interface AttemptRow {
  readonly reference: string
  readonly outcome: Attempt["outcome"]
  readonly code: FailureCode | null
  readonly known_at: number | null
}

const KEY = {
  account_id: "text",
  livemode: "boolean",
  reference: "text",
  customer_id: "text",
  payment_method_id: "text",
} as const

const ATTEMPT = {
  ...KEY,
  amount_kobo: "bigint",
  attempts: "integer",
  outcome: "text",
  code: "text",
  known_at: "timestamptz",
  test_clock_id: "text",
} as const

const keyOf = (charge: RailCharge) => ({
  account_id: charge.account_id,
  livemode: charge.livemode,
  reference: charge.reference,
  customer_id: charge.customerId,
  payment_method_id: charge.paymentMethod.id,
})

export const attemptsLayer: Layer.Layer<Attempts, never, SqlClient.SqlClient> = Layer.effect(
  Attempts,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return Attempts.of({
      alone: (charges, work) => {
        const lockNames = [
          ...new Set(charges.map((charge) => `${charge.customerId} ${charge.paymentMethod.id}`)),
        ].sort()
        return sql
          .withTransaction(
            Effect.andThen(
              Effect.forEach(
                lockNames,
                (name) => sql`SELECT pg_advisory_xact_lock(${LOCKS.attempt}, hashtext(${name}))`,
                {
                  discard: true,
                },
              ),
              work,
            ),
          )
          .pipe(Effect.orDie)
      },
      uses: (charges) =>
        sql<{ reference: string; uses: number }>`
          SELECT r.reference, a.uses
          FROM ${rowsAsTable(charges.map(keyOf), KEY)} r CROSS JOIN LATERAL (
            SELECT count(*) AS uses FROM simulator_attempt
            WHERE (account_id, livemode, customer_id, payment_method_id) = (r.account_id, r.livemode, r.customer_id, r.payment_method_id)
              AND reference <> r.reference AND starts_with(payment_method_id, ${sql.literal(`'${COUNTED}'`)})
          ) a`.pipe(
          Effect.map((rows) => {
            const uses = new Map(rows.map((row) => [row.reference, row.uses]))
            return charges.map((charge) => uses.get(charge.reference) ?? 0)
          }),
          Effect.orDie,
        ),
      note: (attempts) => {
        const rows = attempts.map(({ charge, attempt }) => ({
          ...keyOf(charge),
          amount_kobo: charge.amountKobo,
          attempts: 1,
          outcome: attempt.outcome,
          code: attempt.code,
          known_at: attempt.knownAt,
          test_clock_id: charge.testClockId,
        }))
        // No wait for the disk: the WAL is written in order, so a settlement that follows is never durable without its attempt.
        return sql`
          INSERT INTO simulator_attempt AS a (${names(ATTEMPT)})
          SELECT r.* FROM (SELECT set_config('synchronous_commit', 'off', true)) s CROSS JOIN ${rowsAsTable(rows, ATTEMPT)} r
          ON CONFLICT (account_id, livemode, reference) DO UPDATE SET attempts = a.attempts + 1`.pipe(
          Effect.asVoid,
          Effect.orDie,
        )
      },
      find: (charges) =>
        sql<AttemptRow>`
          SELECT a.reference, a.outcome, a.code, a.known_at
          FROM ${rowsAsTable(charges.map(keyOf), KEY)} r
          JOIN simulator_attempt a ON (a.account_id, a.livemode, a.reference) = (r.account_id, r.livemode, r.reference)`.pipe(
          Effect.map((rows) => {
            const found = new Map(
              rows.map((row) => [row.reference, { outcome: row.outcome, code: row.code, knownAt: row.known_at }]),
            )
            return charges.map((charge) => found.get(charge.reference))
          }),
          Effect.orDie,
        ),
    })
  }),
)
