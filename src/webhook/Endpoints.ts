/** Webhook endpoints (spec 2.9, 4.9; decisions I1, I2, I7). */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { WebhookEndpointEvent } from "../../machines/webhook_endpoint.ts"
import { emailOwner } from "../account/ownerEmail.ts"
import type { Ref, Tenant } from "../db/tenant.ts"
import { isEventPattern } from "../event/types.ts"
import { newId } from "../ids.ts"
import { advance } from "../lifecycle/advance.ts"
import { recordTransitions } from "../lifecycle/commit.ts"
import { invalid, noSuch, type Problem, problem } from "../problem.ts"
import { DAY_MS, formatInstant } from "../time.ts"
import type { EndpointCreate, EndpointPatch } from "./api.ts"
import { type EndpointRow, endpointLifecycle } from "./Endpoint.ts"
import { newSecret } from "./signature.ts"

/** An account's endpoints in an environment (decision I7); the table has as many slots. */
const MOST_ENDPOINTS = 16
/** How long a rolled secret signs on beside its successor (spec 4.9). */
const OVERLAP_MS = DAY_MS
/** Secrets that sign at once: whoever rolls more often than that knows what for. */
const MOST_SECRETS = 5
/** Any number of our own: the class of the locks under which endpoints are added. */
const SLOT_LOCKS = 7_301_006

const columns = (sql: SqlClient.SqlClient) => sql.literal("e.*, NULL::text AS test_clock_id")

/** Refuses what an endpoint cannot be, as far as its words say so; where its URL leads, `Sender` judges. */
export const judge = ({ livemode }: Tenant, { url, enabled_events }: EndpointPatch): Effect.Effect<void, Problem> => {
  if (url !== undefined) {
    const parsed = new URL(url)
    if (livemode && parsed.protocol !== "https:")
      return Effect.fail(invalid("url", "url must begin with https:// in live."))
    if (parsed.username !== "" || parsed.password !== "")
      return Effect.fail(invalid("url", "url must hold no user name or password: deliveries are signed instead."))
    if (parsed.hash !== "") return Effect.fail(invalid("url", "url must hold no fragment (#…): it would not be sent."))
  }
  const strange = enabled_events?.findIndex((pattern) => !isEventPattern(pattern, livemode)) ?? -1
  return strange === -1
    ? Effect.void
    : Effect.fail(
        invalid(
          `enabled_events[${strange}]`,
          `enabled_events[${strange}] must be *, a family such as charge.* or a type such as charge.failed, not ${JSON.stringify(enabled_events![strange])}.`,
        ),
      )
}

const insertSecret = (endpoint: Ref) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const secret = newSecret()
    yield* sql`
      INSERT INTO webhook_secret (account_id, livemode, webhook_endpoint_id, secret)
      VALUES (${endpoint.account_id}, ${endpoint.livemode}, ${endpoint.id}, ${secret})`
    return secret
  })

/** Adds an endpoint that was judged. Its secret is answered here, and never again. */
export const createEndpoint = (tenant: Tenant, input: EndpointCreate) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`SELECT pg_advisory_xact_lock(${SLOT_LOCKS}, hashtext(${tenant.account_id}))`
    const [row] = yield* sql<EndpointRow>`
      INSERT INTO webhook_endpoint AS e (account_id, livemode, id, slot, url, description, enabled_events, state, version, created_at)
      SELECT ${tenant.account_id}, ${tenant.livemode}, ${newId("webhook_endpoint")}, free.slot, ${input.url}, ${input.description ?? null},
        ${input.enabled_events}::text[], 'enabled', 0, ${new Date()}
      FROM generate_series(1, ${MOST_ENDPOINTS}::integer) free (slot)
      WHERE NOT EXISTS (SELECT 1 FROM webhook_endpoint t WHERE (t.account_id, t.livemode, t.slot) = (${tenant.account_id}, ${tenant.livemode}, free.slot::smallint))
      ORDER BY free.slot LIMIT 1 RETURNING ${columns(sql)}`
    if (row === undefined)
      return yield* problem(
        "webhook_endpoint_limit_reached",
        `There are ${MOST_ENDPOINTS} webhook endpoints already: delete one first.`,
      )
    return { row, secret: yield* insertSecret(row) }
  })

export const getEndpoint = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<EndpointRow>`
      SELECT ${columns(sql)} FROM webhook_endpoint e
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ${id}`
    return row ?? (yield* noSuch("webhook endpoint", id))
  })

export const lockEndpoint = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<EndpointRow>`
      SELECT ${columns(sql)} FROM webhook_endpoint e
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ${id} FOR UPDATE`
    return row
  })

const toOwner = ({ url, livemode }: EndpointRow, since: number) => ({
  subject: "A webhook endpoint was disabled",
  body: `Your ${livemode ? "live" : "sandbox"} webhook endpoint ${url} has not accepted an event since ${formatInstant(since)}, so it was disabled. Mend it, then enable it again; events of the time between are not sent by themselves, but GET /events lists them.`,
})

/** Applies an event to a locked endpoint and writes what follows. */
export const moveEndpoint = (row: EndpointRow, event: WebhookEndpointEvent) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const transitions = advance(endpointLifecycle, [{ row, event }])
    const [transition] = transitions
    if (transition === undefined) return row
    const { reason } = transition.decision.snapshot.context
    const effects = new Set(transition.decision.effects.map(({ type }) => type))
    const givenUp = effects.has("giveUpWaiting")
      ? sql`(SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM webhook_delivery_seq_seq)`
      : sql`given_up_to`
    const [moved] = yield* sql<EndpointRow>`
      UPDATE webhook_endpoint e SET state = ${transition.to}, disabled_reason = ${reason}, version = ${transition.version},
        given_up_to = ${givenUp}, failures = 0, failing_since = NULL
      WHERE account_id = ${row.account_id} AND livemode = ${row.livemode} AND id = ${row.id} RETURNING ${columns(sql)}`
    yield* recordTransitions(endpointLifecycle, transitions)
    if (effects.has("emailOwner")) yield* emailOwner(row, toOwner(row, row.failing_since ?? event.at))
    return moved!
  })

/** Changes an endpoint; the patch was judged. */
export const updateEndpoint = (tenant: Tenant, id: string, patch: EndpointPatch) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const before = (yield* lockEndpoint(tenant, id)) ?? (yield* noSuch("webhook endpoint", id))
    const [row] = yield* sql<EndpointRow>`
      UPDATE webhook_endpoint e SET url = ${patch.url ?? before.url},
        description = ${patch.description === undefined ? before.description : patch.description},
        enabled_events = ${patch.enabled_events ?? before.enabled_events}::text[]
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ${id} RETURNING ${columns(sql)}`
    if (patch.status === undefined) return row!
    return yield* moveEndpoint(row!, { type: patch.status === "enabled" ? "enable" : "disable", at: Date.now() })
  })

/** Deletes an endpoint. What waits for it is given up by the worker. */
export const deleteEndpoint = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const gone = yield* sql`
      DELETE FROM webhook_endpoint WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ${id} RETURNING 1`
    if (gone.length === 0) return yield* noSuch("webhook endpoint", id)
    yield* sql`
      DELETE FROM lifecycle_journal WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND actor_id = ${id}`
    return { id, object: "webhook_endpoint" as const, livemode: tenant.livemode, deleted: true }
  })

/** A new secret; the one before signs on beside it for a day. */
export const rollSecret = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const row = (yield* lockEndpoint(tenant, id)) ?? (yield* noSuch("webhook endpoint", id))
    const expiresAt = Date.now() + OVERLAP_MS
    yield* sql`
      UPDATE webhook_secret SET expires_at = ${PgTypes.timestamptz(expiresAt)}
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND webhook_endpoint_id = ${id} AND expires_at IS NULL`
    return { row, secret: yield* insertSecret(row), previousExpiresAt: expiresAt }
  })

/** What deliveries to the endpoint `e` are signed with now, the newest first: a query. */
export const LIVE_SECRETS = `
  SELECT secret FROM webhook_secret s
  WHERE (s.account_id, s.livemode, s.webhook_endpoint_id) = (e.account_id, e.livemode, e.id) AND (expires_at IS NULL OR expires_at > now())
  ORDER BY s.id DESC LIMIT ${MOST_SECRETS}`

export const readSecrets = (endpoint: Ref) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ secret: string }>`
      SELECT l.secret FROM webhook_endpoint e CROSS JOIN LATERAL (${sql.literal(LIVE_SECRETS)}) l
      WHERE e.account_id = ${endpoint.account_id} AND e.livemode = ${endpoint.livemode} AND e.id = ${endpoint.id}`
    return rows.map(({ secret }) => Redacted.make(secret))
  })
