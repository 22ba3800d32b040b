/** Reads timelines (decision S3): the transitions of one actor, newest first, each with its cause and what it created. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { delayOf, triggerOf } from "../../machines/decide.ts"
import { kindOf } from "../base/ids.ts"
import { invalid } from "../base/problem.ts"
import { formatInstant } from "../base/time.ts"
import type { Cause } from "../db/Causes.ts"
import { ofTenant, type Tenant } from "../db/tenant.ts"
import { EXCLUSIVE, limitIn, type PageQuery } from "../http/lists.ts"
import type { CAUSES, Transition } from "./timelineApi.ts"

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

const NO_REQUEST = { request_id: null, key: null, member: null }

/** The events by which machines learn of a rail's answer. */
const OF_RAILS = /^(rail\.|payment\.(succeeded|failed)$|charge\.(succeeded|failed|unsettled)$)/
/** The events that a rail's answer to a charge causes at its checkout session and its subscription. */
const AFTER_RAILS: ReadonlySet<string> = new Set(["complete", "decline", "check_out"])
/** The events of timers that are no delays of the machine that gets them. */
const OF_TIMERS: ReadonlySet<string> = new Set(["reminder", "expire", "checkout_expired"])

/** The cause of a transition that no request asked for. */
const causeOf = (type: string, isOnClock: boolean): (typeof CAUSES)[number] => {
  if (delayOf(type) !== undefined || OF_TIMERS.has(type)) return isOnClock ? "clock" : "timer"
  return OF_RAILS.test(type) || AFTER_RAILS.has(type) ? "rail" : "system"
}

const INSTANT = /(^at|At|Start|End|NotBefore)$/

/** Instants of events are numbers in the journal. */
const shown = (name: string, value: unknown): unknown => {
  if (typeof value === "number") return INSTANT.test(name) ? formatInstant(value) : value
  if (Array.isArray(value)) return value.map((one) => shown("", one))
  return value instanceof Object ? fieldsOf(value) : value
}

const fieldsOf = (value: object): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(value).map(([name, field]) => [name, shown(name, field)]))

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
      event: { ...fieldsOf(row.event), type: triggerOf(row.event.type) },
      from: row.from_state,
      to: row.to_state,
      status_before: row.status_from,
      status_after: row.status_to,
      cause: row.cause ?? { kind: causeOf(row.event.type, test_clock_id !== null), ...NO_REQUEST },
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

/** Reads the timers that wait, in words. */
export const upcoming = Effect.fnUntraced(function* (tenant: Tenant, { id, means }: Subject) {
  const sql = yield* SqlClient.SqlClient
  const timers = yield* sql<{ name: string; due_at: number }>`
    SELECT name, due_at FROM timer WHERE ${ofTenant(sql, tenant)} AND actor_id = ${id} ORDER BY due_at, rank`
  return timers.map(({ name, due_at }) => ({ name, at: formatInstant(due_at), means: means[name] ?? name }))
})

/** Reads one page of an actor's timeline. */
export const timelineOf = Effect.fn("timeline")(function* (tenant: Tenant, subject: Subject, query: PageQuery) {
  const sql = yield* SqlClient.SqlClient
  const { id } = subject
  const limit = limitIn(query)
  const [older, newer] = [
    yield* versionIn("starting_after", query.starting_after, id),
    yield* versionIn("ending_before", query.ending_before, id),
  ]
  if (older !== undefined && newer !== undefined) return yield* EXCLUSIVE
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

/** An event is found if it is of one of the newest transitions of its object. */
const SEARCHED = 500
/** How many transitions may lie between a charge and the rail's answer. */
const ANSWERED_WITHIN = 50

/**
 * Finds the request that caused an event of an actor: of the transition that made the event or, if that is a rail's answer, of the transition
 * that asked the rail. null: a timer or the service did, or it is not found.
 */
export const requestOfEvent = Effect.fn("timeline.requestOfEvent")(function* (
  tenant: Tenant,
  actorId: string,
  eventId: string,
) {
  const sql = yield* SqlClient.SqlClient
  const [own] = yield* sql<{ version: number; type: string; cause: Cause | null }>`
    SELECT version, type, cause FROM (
      SELECT version, event->>'type' AS type, cause, brought FROM lifecycle_journal
      WHERE ${ofTenant(sql, tenant)} AND actor_id = ${actorId} ORDER BY version DESC LIMIT ${SEARCHED}
    ) newest WHERE ${eventId} = ANY (brought) LIMIT 1`
  if (own === undefined) return null
  if (own.cause !== null || causeOf(own.type, false) !== "rail") return own.cause?.request_id ?? null
  const earlier = yield* sql<{ cause: Cause | null; brought: ReadonlyArray<string> }>`
    SELECT cause, brought FROM lifecycle_journal
    WHERE ${ofTenant(sql, tenant)} AND actor_id = ${actorId}
      AND version <= ${own.version} AND version > ${own.version - ANSWERED_WITHIN}
    ORDER BY version DESC`
  const asked = earlier.find(({ brought }) => brought.some((id) => kindOf(id) === "charge"))
  return asked?.cause?.request_id ?? null
})
