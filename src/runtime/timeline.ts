/** Timelines (decision S3): the transitions of one actor, newest first, with who caused each and what it brought about. */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { kindOf } from "../base/ids.ts"
import type { Json } from "../base/json.ts"
import { invalid } from "../base/problem.ts"
import { formatInstant } from "../base/time.ts"
import type { Cause } from "../db/Causes.ts"
import { livesHere, ofTenant, type Tenant } from "../db/tenant.ts"
import { limitIn, type PageQuery, pageFields } from "../http/lists.ts"
import { exampleId, instant, open } from "../http/response.ts"
import type { ActorKind } from "./lifecycle.ts"

const { Array: ArrayOf, Int, Literal, Literals, NullOr, String: Text, Struct } = Schema

const CAUSES = ["api", "dashboard", "page", "timer", "clock", "rail", "system"] as const

export const Transition = Struct({
  object: Literal("transition"),
  id: Text,
  version: Int,
  at: instant,
  event: open.annotate({ description: "What the machine heard: its type and its fields" }),
  from: Text,
  to: Text,
  status_before: NullOr(Text),
  status_after: NullOr(Text),
  cause: Struct({
    kind: Literals(CAUSES),
    request_id: NullOr(Text),
    key: NullOr(Text),
    member: NullOr(Text),
  }),
  charges: ArrayOf(Text),
  refunds: ArrayOf(Text),
  ledger_entries: ArrayOf(Text),
  nudges: ArrayOf(Text),
  events: ArrayOf(Text),
}).annotate({
  identifier: "transition",
  examples: [
    {
      object: "transition",
      id: `${exampleId("subscription")}:2`,
      version: 2,
      at: "2026-11-01T09:00:00.000Z",
      event: { type: "charge.succeeded", at: "2026-11-01T09:00:00.000Z" },
      from: "opening",
      to: "active.current",
      status_before: "incomplete",
      status_after: "active",
      cause: { kind: "rail", request_id: null, key: null, member: null },
      charges: [],
      refunds: [],
      ledger_entries: [exampleId("ledger_entry")],
      nudges: [],
      events: [exampleId("event")],
    },
  ],
})

/** What the timeline of every kind of actor declares. */
export const timeline = {
  method: "GET",
  summary: "List what happened, newest first",
  notes:
    "Every transition of its machine: what the machine heard, who caused it, and the IDs of what it brought about. meta.upcoming of the first page lists the timers that wait.",
  query: Struct(pageFields),
  status: 200,
  list: true,
  success: Transition,
  codes: ["resource_missing"],
} as const

interface JournalRow {
  readonly version: number
  readonly at: number
  readonly event: { readonly type: string }
  readonly from_state: string
  readonly to_state: string
  readonly status_from: string | null
  readonly status_to: string | null
  readonly cause: Cause | null
  readonly brought: ReadonlyArray<string>
}

const NOBODY = { request_id: null, key: null, member: null }

/** The events by which machines hear of payments; a rail said so. */
const OF_RAILS = /^(rail|charge|payment)\./
/** The events that only buyers cause, on pages, if no request of the API did. */
const OF_BUYERS: ReadonlySet<string> = new Set([
  "create",
  "check_out",
  "pay",
  "complete",
  "decline",
  "retry",
  "update",
  "method",
  "payment.begun",
  "cancel",
])

/** Who caused a transition that nobody asked for. */
const causeOf = (type: string, isOnClock: boolean): (typeof CAUSES)[number] => {
  if (type === "payment.begun") return "page"
  if (OF_RAILS.test(type)) return "rail"
  if (type.startsWith("xstate.after.") || type === "reminder") return isOnClock ? "clock" : "timer"
  return OF_BUYERS.has(type) ? "page" : "system"
}

/** Instants of events are numbers in the journal. */
const shownEvent = (event: JournalRow["event"]): Json =>
  Object.fromEntries(
    Object.entries(event as Json).map(([name, value]) => [
      name,
      typeof value === "number" && /(^a|A)t$/.test(name) ? formatInstant(value) : value,
    ]),
  )

/** The actor of a timeline, and the words for its timers. */
export interface Subject {
  readonly id: string
  readonly test_clock_id: string | null
  readonly means: Readonly<Record<string, string>>
}

const render =
  ({ id, test_clock_id }: Subject) =>
  (row: JournalRow): typeof Transition.Type => {
    const of = (kind: string) => row.brought.filter((one) => kindOf(one) === kind)
    return {
      object: "transition",
      id: `${id}:${row.version}`,
      version: row.version,
      at: formatInstant(row.at),
      event: shownEvent(row.event) as Readonly<Record<string, unknown>>,
      from: row.from_state,
      to: row.to_state,
      status_before: row.status_from,
      status_after: row.status_to,
      cause: row.cause ?? { kind: causeOf(row.event.type, test_clock_id !== null), ...NOBODY },
      charges: of("charge"),
      refunds: of("refund"),
      ledger_entries: of("ledger_entry"),
      nudges: of("nudge"),
      events: of("event"),
    }
  }

/** The version that a cursor names. */
const versionIn = Effect.fnUntraced(function* (param: keyof PageQuery, cursor: string | undefined, id: string) {
  if (cursor === undefined) return undefined
  const version = cursor.startsWith(`${id}:`) ? cursor.slice(id.length + 1) : ""
  return /^[1-9]\d{0,8}$/.test(version)
    ? Number(version)
    : yield* invalid(param, `${param} must be the ID of a transition of this timeline, such as ${id}:3.`)
})

/** The timers that wait, in words. */
const upcoming = Effect.fnUntraced(function* (tenant: Tenant, { id, means }: Subject) {
  const sql = yield* SqlClient.SqlClient
  const timers = yield* sql<{ name: string; due_at: number }>`
    SELECT name, due_at FROM timer WHERE ${ofTenant(sql, tenant)} AND actor_id = ${id} ORDER BY due_at, rank`
  return timers.map(({ name, due_at }) => ({ name, at: formatInstant(due_at), means: means[name] ?? name }))
})

/** Reads one page of an actor's timeline. */
const timelineOf = Effect.fn("timeline")(function* (tenant: Tenant, subject: Subject, query: PageQuery) {
  const sql = yield* SqlClient.SqlClient
  const { id } = subject
  const limit = limitIn(query)
  const [older, newer] = [
    yield* versionIn("starting_after", query.starting_after, id),
    yield* versionIn("ending_before", query.ending_before, id),
  ]
  if (older !== undefined && newer !== undefined)
    return yield* invalid("ending_before", "ending_before and starting_after exclude each other: send one of them.")
  const backwards = newer !== undefined
  const from = older ?? newer
  const beyond = from === undefined ? sql`true` : backwards ? sql`version > ${from}` : sql`version < ${from}`
  const rows = yield* sql<JournalRow>`
    SELECT version, at, event, from_state, to_state, status_from, status_to, cause, brought FROM lifecycle_journal
    WHERE ${ofTenant(sql, tenant)} AND actor_id = ${id} AND ${beyond}
    ORDER BY version ${sql.literal(backwards ? "ASC" : "DESC")} LIMIT ${limit + 1}`
  const shown = rows.slice(0, limit)
  const data = (backwards ? shown.reverse() : shown).map(render(subject))
  const meta = from === undefined ? { meta: { upcoming: yield* upcoming(tenant, subject) } } : {}
  return { data, hasMore: rows.length > limit, limit, backwards, ...meta }
})

/** The handler of a timeline. `find` finds the actor; `means` are the words for its timers. */
export const timelineHandler = <E, R>(
  find: (tenant: Tenant, id: string) => Effect.Effect<Pick<Subject, "test_clock_id"> & { readonly id: string }, E, R>,
  means: Subject["means"],
) => ({
  kind: "read" as const,
  run: (request: Tenant & { readonly id: string; readonly query: PageQuery }) =>
    Effect.flatMap(find(request, request.id), ({ id, test_clock_id }) =>
      timelineOf(request, { id, test_clock_id, means }, request.query),
    ),
})

/** An actor that has a journal, wherever it is. */
export interface FoundActor extends Tenant {
  readonly id: string
  readonly kind: ActorKind
  readonly state: string
  readonly test_clock_id: string | null
}

/** Finds an actor by ID in all accounts of this cell. Codes of instalment plans are unique within their account only, so there may be several. */
export const findActors = Effect.fnUntraced(function* (id: string) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql<Tenant & { readonly actor_kind: ActorKind }>`
    SELECT a.id AS account_id, l.livemode, j.actor_kind FROM account a CROSS JOIN unnest(ARRAY[false, true]) l (livemode) CROSS JOIN LATERAL (
      SELECT actor_kind FROM lifecycle_journal WHERE (account_id, livemode, actor_id) = (a.id, l.livemode, ${id}) LIMIT 1
    ) j WHERE ${livesHere(sql, "a", "id")}`
  return yield* Effect.forEach(found, ({ account_id, livemode, actor_kind }) =>
    Effect.map(
      sql<{ state: string; test_clock_id: string | null }>`
        SELECT state, to_jsonb(a)->>'test_clock_id' AS test_clock_id FROM ${sql(actor_kind)} a
        WHERE (account_id, livemode, id) = (${account_id}, ${livemode}, ${id})`,
      ([row]): FoundActor => ({
        account_id,
        livemode,
        id,
        kind: actor_kind,
        state: row?.state ?? "gone",
        test_clock_id: row?.test_clock_id ?? null,
      }),
    ),
  )
})

/** Reads an actor's whole timeline, oldest first. */
export const wholeTimeline = Effect.fnUntraced(function* (actor: FoundActor) {
  const pages: Array<ReadonlyArray<typeof Transition.Type>> = []
  let starting_after: string | undefined
  for (;;) {
    const query: PageQuery = { limit: "100", ...(starting_after === undefined ? {} : { starting_after }) }
    const { data, hasMore } = yield* timelineOf(actor, { ...actor, means: {} }, query)
    pages.push(data)
    starting_after = data.at(-1)?.id
    if (!hasMore || starting_after === undefined) return pages.flat().reverse()
  }
})
