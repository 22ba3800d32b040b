/** Reads what the transitions of a page brought about, for its lanes: one statement for each kind of object, whatever the number of transitions. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ofTenant, type Tenant } from "../db/tenant.ts"
import { type Brought, chargesOf } from "../pages/dashboard/lanes.ts"
import { PIPELINED } from "../postgres/pipelining.ts"
import type { Transition } from "../runtime/timelineApi.ts"

type Item = typeof Transition.Type

/** Objects of each kind that a page shows: a page has 20 transitions, which bring about a handful each. */
const MAX_SHOWN = 200

const idsIn = (ids: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<string> => ids.flat().slice(0, MAX_SHOWN)

const namesIn = (names: ReadonlyArray<string | null>): ReadonlyArray<string> => [
  ...new Set(names.filter((name) => name !== null)),
]

const byId = <Row extends { readonly id: string }>(rows: ReadonlyArray<Row>): ReadonlyMap<string, Row> =>
  new Map(rows.map((row) => [row.id, row]))

/** Reads charges, ledger entries, nudges, events with their deliveries, and the names of keys and members. */
export const readBrought = Effect.fn("dashboard.lanes")(function* (tenant: Tenant, items: ReadonlyArray<Item>) {
  const sql = yield* SqlClient.SqlClient
  const of = (alias: string) => ofTenant(sql, tenant, alias)
  const charges = idsIn(items.map(chargesOf))
  const entries = idsIn(items.map((item) => item.ledger_entries))
  const nudges = idsIn(items.map((item) => item.nudges))
  const events = idsIn(items.map((item) => item.events))
  const keys = namesIn(items.map(({ cause }) => cause.key))
  const members = namesIn(items.map(({ cause }) => cause.member))
  const [chargeRows, entryRows, nudgeRows, eventRows, keyRows, memberRows] = yield* Effect.all(
    [
      sql<{ id: string; amount_kobo: number; status: string; failure_message: string | null }>`
        SELECT id, amount_kobo, status, failure_message FROM charge c WHERE ${of("c")} AND id = ANY(${charges}::text[])`,
      sql<{ id: string; event: string; kobo: number }>`
        SELECT e.id, e.event, (
          SELECT coalesce(sum(l.amount_kobo) FILTER (WHERE l.amount_kobo > 0), 0)::bigint FROM ledger_line l
          WHERE (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
        ) AS kobo FROM ledger_entry e WHERE ${of("e")} AND id = ANY(${entries}::text[])`,
      sql<{ id: string; template: string; status: string }>`
        SELECT id, template, status FROM nudge n WHERE ${of("n")} AND id = ANY(${nudges}::text[])`,
      sql<{ id: string; type: string; pending: number; succeeded: number; failed: number }>`
        SELECT e.id, e.type, d.pending, d.succeeded, d.failed FROM event e CROSS JOIN LATERAL (
          SELECT count(*) FILTER (WHERE status = 'pending') AS pending, count(*) FILTER (WHERE status = 'succeeded') AS succeeded,
            count(*) FILTER (WHERE status = 'failed') AS failed
          FROM webhook_delivery d WHERE d.event_id = e.id AND (d.account_id, d.livemode) = (e.account_id, e.livemode)
        ) d WHERE ${of("e")} AND e.id = ANY(${events}::text[])`,
      sql<{ id: string; last4: string }>`
        SELECT id, last4 FROM api_key k WHERE ${of("k")} AND id = ANY(${keys}::text[])`,
      // Members are kept with the live data.
      sql<{ id: string; email: string }>`
        SELECT id, email FROM member m WHERE account_id = ${tenant.account_id} AND livemode AND id = ANY(${members}::text[])`,
    ],
    PIPELINED,
  )
  return {
    charges: byId(chargeRows),
    entries: byId(entryRows),
    nudges: byId(nudgeRows),
    events: byId(eventRows),
    keys: byId(keyRows),
    members: byId(memberRows),
  } satisfies Brought
})
