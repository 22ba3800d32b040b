/** Sessions of the dashboard (decision R5): a cookie that is a secret (tokens.ts), of which the hash is stored. */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { LiveAccess } from "../../../machines/live_access.ts"
import type { ApiPlan } from "../../base/apiPlans.ts"
import { newId } from "../../base/ids.ts"
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { livesHere } from "../../db/tenant.ts"
import type { Role } from "../../security/role/rights.ts"
import type { Vertical } from "../account/verticals.ts"
import { isToken, newToken, sha256 } from "./tokens.ts"

/** A working day: a session that was not used for longer has ended. */
const IDLE_MS = 12 * HOUR_MS
/** A session ends, also if it is used every day. */
const LONGEST_MS = 30 * DAY_MS
/** Live keys, credentials of rails, the team and live access need a sign-in that is not older. */
export const FRESH_MS = 15 * MINUTE_MS
/** Sessions of a person. One more ends the one that was used longest ago. */
const MAX_SESSIONS = 50
/** The start of the browser's name: enough to tell browsers apart. */
const MAX_BROWSER = 200

export type Method = "code" | "passkey" | "link"

/** An account of a person. */
export interface Membership {
  readonly account: string
  readonly business: string
  readonly role: Role
}

/** A session with the member and the account that it shows. */
export interface Session {
  readonly id: string
  readonly email: string
  readonly account_id: string
  readonly member_id: string
  readonly role: Role
  readonly business_name: string
  readonly live_access: LiveAccess
  readonly api_plan: ApiPlan
  readonly vertical: Vertical | null
  readonly signed_in_at: number
  readonly last_used_at: number
  /** All accounts of the person, this one included. */
  readonly memberships: ReadonlyArray<Membership>
}

export interface SessionRow {
  readonly id: string
  readonly method: Method
  readonly network: string
  readonly browser: string
  readonly signed_in_at: number
  readonly last_used_at: number
}

/** Whether a session is fresh enough for a sensitive action. */
export const isFresh = ({ signed_in_at }: Pick<Session, "signed_in_at">): boolean =>
  currentTime() - signed_in_at < FRESH_MS

const hashOf = (cookie: string): Uint8Array | undefined => (isToken(cookie) ? sha256(cookie) : undefined)

/** The members of a person that have joined an account of this cell. */
const memberships = (sql: SqlClient.SqlClient, email: string) => sql<Membership & { member: string }>`
  SELECT m.account_id AS account, m.id AS member, a.business_name AS business, m.role FROM member m JOIN account a ON a.id = m.account_id
  WHERE m.email = ${email} AND m.removed_at IS NULL AND m.joined_at IS NOT NULL AND ${livesHere(sql, "m")} ORDER BY a.business_name, a.id LIMIT 100`

export interface From {
  readonly network: string
  /** The header User-Agent. */
  readonly browser: string
}

/**
 * Starts a session of a person, and ends the browser's former one. Returns its cookie; undefined: the person is no member of any account.
 * `account`: the one to show; by default the one that the person used last.
 */
export const startSession = Effect.fn("session.start")(function* (
  email: string,
  method: Method,
  { network, browser }: From,
  former: string | undefined,
  account?: string,
) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      const all = yield* memberships(sql, email)
      if (all.length === 0) return undefined
      const [last] = yield* sql<{ current_account: string }>`
        SELECT current_account FROM dashboard_session WHERE email = ${email} ORDER BY last_used_at DESC LIMIT 1`
      const wanted = account ?? last?.current_account
      const shown = all.find((one) => one.account === wanted) ?? all[0]!
      const formerHash = former === undefined ? undefined : hashOf(former)
      if (formerHash !== undefined) yield* sql`DELETE FROM dashboard_session WHERE hash = ${formerHash}`
      yield* sql`
        DELETE FROM dashboard_session WHERE hash IN (
          SELECT hash FROM dashboard_session WHERE email = ${email} ORDER BY last_used_at DESC OFFSET ${MAX_SESSIONS - 1})`
      const cookie = yield* newToken
      const now = PgTypes.timestamptz(currentTime())
      yield* sql`
        INSERT INTO dashboard_session (hash, id, email, current_account, method, network, browser, signed_in_at, last_used_at)
        VALUES (${sha256(cookie)}, ${newId("dashboard_session")}, ${email}, ${shown.account}, ${method}, ${network},
          ${browser.slice(0, MAX_BROWSER)}, ${now}, ${now})`
      return { cookie, account: shown.account, member: shown.member }
    }),
  )
})

/**
 * Finds the session of a cookie. Undefined: it has ended, or its member was removed. `isUse`: whether this prolongs it; a page that is only
 * open does not.
 */
export const findSession = Effect.fn("session.find")(function* (cookie: string, isUse = true) {
  const hash = hashOf(cookie)
  if (hash === undefined) return undefined
  const sql = yield* SqlClient.SqlClient
  const now = currentTime()
  const [found] = yield* sql<Omit<Session, "memberships">>`
    SELECT s.id, s.email, a.id AS account_id, m.id AS member_id, m.role, a.business_name, a.live_access, a.api_plan, a.vertical,
      s.signed_in_at, s.last_used_at
    FROM dashboard_session s
    JOIN member m ON (m.email, m.account_id, m.livemode) = (s.email, s.current_account, true) AND m.removed_at IS NULL AND m.joined_at IS NOT NULL
    JOIN account a ON a.id = m.account_id
    WHERE s.hash = ${hash} AND s.last_used_at > ${PgTypes.timestamptz(now - IDLE_MS)} AND s.signed_in_at > ${PgTypes.timestamptz(now - LONGEST_MS)}
      AND ${livesHere(sql, "m")}`
  if (found === undefined) return undefined
  if (isUse && now - found.last_used_at > MINUTE_MS)
    yield* sql`UPDATE dashboard_session SET last_used_at = ${PgTypes.timestamptz(now)} WHERE hash = ${hash}`
  const all = yield* memberships(sql, found.email)
  const session: Session = {
    ...found,
    memberships: all.map(({ account, business, role }) => ({ account, business, role })),
  }
  return session
})

export const endSession = Effect.fn("session.end")(function* (cookie: string) {
  const hash = hashOf(cookie)
  if (hash === undefined) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`DELETE FROM dashboard_session WHERE hash = ${hash}`
})

/** Shows another account of the person. Returns whether the person is a member of it. */
export const switchAccount = Effect.fn("session.switch")(function* ({ id, email }: Session, account: string) {
  const sql = yield* SqlClient.SqlClient
  const all = yield* memberships(sql, email)
  if (!all.some((one) => one.account === account)) return false
  yield* sql`UPDATE dashboard_session SET current_account = ${account} WHERE id = ${id}`
  return true
})

/** Lists the open sessions of a person, the last used first. */
export const listSessions = Effect.fn("session.list")(function* (email: string) {
  const sql = yield* SqlClient.SqlClient
  const now = currentTime()
  return yield* sql<SessionRow>`
    SELECT id, method, network, browser, signed_in_at, last_used_at FROM dashboard_session
    WHERE email = ${email} AND last_used_at > ${PgTypes.timestamptz(now - IDLE_MS)} AND signed_in_at > ${PgTypes.timestamptz(now - LONGEST_MS)}
    ORDER BY last_used_at DESC`
})

/** Ends a session of a person by its ID. */
export const revokeSession = Effect.fn("session.revoke")(function* (email: string, id: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`DELETE FROM dashboard_session WHERE email = ${email} AND id = ${id}`
})

/** Ends the sessions of a removed member that show the account. Those that show other accounts of the person go on. */
export const endSessionsOf = Effect.fn("session.endOf")(function* (account: string, email: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`DELETE FROM dashboard_session WHERE email = ${email} AND current_account = ${account}`
})

/** Rows of one DELETE: a few milliseconds. */
const MAX_DELETED = 5_000

/** Deletes sessions that have ended. */
export const purgeSessions = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    DELETE FROM dashboard_session WHERE hash IN (
      SELECT hash FROM dashboard_session WHERE last_used_at < ${PgTypes.timestamptz(currentTime() - IDLE_MS)} LIMIT ${MAX_DELETED})`
})
