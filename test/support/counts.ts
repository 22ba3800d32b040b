/** The counts of the pages of machines, and what they must be: counted from the rows. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export const countedStates = (account: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      SELECT livemode, kind, state, actors, kobo FROM state_count WHERE account_id = ${account} AND (actors <> 0 OR kobo <> 0)
      ORDER BY livemode, kind, state`,
  )

export const statesOfRows = (account: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      SELECT livemode, kind, state, count(*) AS actors, sum(kobo)::bigint AS kobo FROM (
        SELECT account_id, livemode, 'subscription' AS kind, state, version, price_kobo * quantity AS kobo FROM subscription
        UNION ALL SELECT account_id, livemode, 'charge', state, version, amount_kobo FROM charge
        UNION ALL SELECT account_id, livemode, 'refund', state, version, amount_kobo FROM refund
        UNION ALL SELECT account_id, livemode, 'invoice', state, version, total_kobo FROM invoice
        UNION ALL SELECT account_id, livemode, 'checkout_session', state, version, coalesce(price_kobo * quantity, 0) FROM checkout_session
        UNION ALL SELECT account_id, livemode, 'instalment_plan', state, version, target_kobo FROM instalment_plan
        UNION ALL SELECT account_id, livemode, 'nudge', state, version, 0 FROM nudge
        UNION ALL SELECT account_id, livemode, 'test_clock', state, version, 0 FROM test_clock
      ) a WHERE account_id = ${account} AND version > 0 GROUP BY livemode, kind, state ORDER BY livemode, kind, state`,
  )

export const countedArrows = (account: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      SELECT livemode, kind, from_state, to_state, trigger, sum(transitions)::bigint AS transitions FROM arrow_count WHERE account_id = ${account}
      GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5`,
  )

export const arrowsOfJournal = (account: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      SELECT livemode, actor_kind AS kind, from_state, to_state,
        coalesce('after ' || (regexp_match(event->>'type', '^xstate[.]after[.]([^.]+)[.]'))[1], event->>'type') AS trigger, count(*) AS transitions
      FROM lifecycle_journal WHERE account_id = ${account} GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5`,
  )
