/**
 * Signing up and in (decisions R3, R4): a code to an e-mail address, or a link. A sign-in belongs to the browser that began it: its cookie
 * holds 256 random bits, without which a code is worth nothing.
 */
import { randomInt } from "node:crypto"
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { newId } from "../../base/ids.ts"
import { problem, tryAgainIn } from "../../base/problem.ts"
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import type { Tenant } from "../../db/tenant.ts"
import { SERVICE_ACCOUNT } from "../../ledger/chart.ts"
import { LOCKS } from "../../postgres/advisoryLocks.ts"
import { createAccount } from "../account/accounts.ts"
import { emailTo, type Letter } from "../account/letters.ts"
import { newToken, sha256 } from "./tokens.ts"

export const CODE_MINUTES = 10
/** Five guesses at each of five codes an hour: 25 of 1,000,000. */
const MAX_TRIES = 5
/** Codes of an address in an hour, so that its owner is not flooded with letters. */
const CODES_OF_ADDRESS = 5
/** Codes of a network in an hour: an office that signs in together. */
const CODES_OF_NETWORK = 20
/** Challenges of passkeys cost no letter. The limit bounds the rows that a network can make. */
const CHALLENGES_OF_NETWORK = 300
const LIMIT_MS = HOUR_MS
/** Ended sign-ins are kept for the limits, and for questions of the day. */
const KEPT_MS = DAY_MS

const LIMIT_REACHED = tryAgainIn(
  LIMIT_MS / 1000,
  problem("sign_in_limit_reached", "Too many codes were asked for. Try again in an hour, or sign in with a passkey."),
)
const TOO_MANY_CHALLENGES = tryAgainIn(
  LIMIT_MS / 1000,
  problem(
    "sign_in_limit_reached",
    "Too many sign-ins with passkeys were begun from this network. Try again in an hour.",
  ),
)
const WRONG = problem(
  "sign_in_invalid",
  `This code is wrong, or it is not valid any more: a code is valid for ${CODE_MINUTES} minutes and ${MAX_TRIES} tries. Ask for a new one.`,
)
const WRONG_LINK = problem("sign_in_invalid", "This link was used already, or it has expired.")

/** Letters to people who belong to no account are those of the service. */
const SERVICE: Tenant = { account_id: SERVICE_ACCOUNT, livemode: true }

interface SignInRow {
  readonly id: string
  readonly purpose: "sign_in" | "sign_up" | "passkey" | "link"
  readonly email: string
  readonly business_name: string | null
  readonly used_at: number | null
}

/** The members that may sign in with an address: those that have joined, and those whose invitation is still valid. */
const isOpen = (sql: SqlClient.SqlClient): Fragment =>
  sql`removed_at IS NULL AND (joined_at IS NOT NULL OR invited_until > ${PgTypes.timestamptz(currentTime())})`

/** Accounts of a person that are looked up. */
const MAX_MEMBERSHIPS = 100

/** The members, of all accounts, that an address signs in as. */
export const membershipsOf = Effect.fnUntraced(function* (email: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ account_id: string; id: string }>`
    SELECT account_id, id FROM member WHERE email = ${email} AND ${isOpen(sql)} LIMIT ${MAX_MEMBERSHIPS}`
})

/** Whether an address belongs to a member of any account. */
const isMember = (email: string) => Effect.map(membershipsOf(email), (members) => members.length > 0)

/** Counts the codes of the last hour, and refuses one more than the limits. Others who ask for the same address or network wait. */
const takeCode = Effect.fnUntraced(function* (email: string, network: string) {
  const sql = yield* SqlClient.SqlClient
  const since = PgTypes.timestamptz(currentTime() - LIMIT_MS)
  yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.codesOfAddress}, hashtext(${email}))`
  yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.codesOfNetwork}, hashtext(${network}))`
  const [count] = yield* sql<{ of_email: number; of_network: number }>`
    SELECT
      (SELECT count(*) FROM (SELECT FROM sign_in WHERE email = ${email} AND created_at > ${since} AND purpose <> 'link' LIMIT ${CODES_OF_ADDRESS}) e)::integer AS of_email,
      (SELECT count(*) FROM (SELECT FROM sign_in WHERE network = ${network} AND created_at > ${since} AND email IS NOT NULL AND purpose <> 'link' LIMIT ${CODES_OF_NETWORK}) n)::integer AS of_network`
  if (count!.of_email >= CODES_OF_ADDRESS || count!.of_network >= CODES_OF_NETWORK) return yield* LIMIT_REACHED
})

const newCode = (): string => String(randomInt(1_000_000)).padStart(6, "0")

const codeHash = (code: string, visitor: string): Uint8Array => sha256(`${visitor} ${code}`)

const ofCode = (code: string): Letter => ({
  subject: `${code} is your code`,
  body: `Your code is ${code}.\n\nIt is valid for ${CODE_MINUTES} minutes, on the page where you asked for it. We never ask for it by phone or in a message. If you did not ask for it, ignore this letter.`,
})

const LETTERS = {
  /** A sign-up with an address that has an account. */
  sign_up: (signIn: string): Letter => ({
    subject: "You have an account already",
    body: `This address was given to sign up. It has an account already: sign in at ${signIn}\n\nIf it was not you, ignore this letter.`,
  }),
  /** A sign-in with an unknown address. */
  sign_in: (signUp: string): Letter => ({
    subject: "There is no account for this address",
    body: `This address was given to sign in. It belongs to no account: sign up at ${signUp}, or sign in with another address.\n\nIf it was not you, ignore this letter.`,
  }),
}

export interface Visitor {
  /** The content of the browser's cookie. */
  readonly visitor: string
  readonly network: string
}

/**
 * Sends a code to an address, for a sign-up with a business name or for a sign-in. The answer is the same whether the address is known or
 * not; the letter says it. Returns the letter.
 */
export const sendCode = Effect.fn("signIn.sendCode")(function* (
  { visitor, network }: Visitor,
  email: string,
  businessName: string | null,
  /** The other page, for the letter. */
  otherPage: string,
) {
  const sql = yield* SqlClient.SqlClient
  const purpose = businessName === null ? "sign_in" : "sign_up"
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      yield* takeCode(email, network)
      const code = newCode()
      const isRight = (yield* isMember(email)) === (purpose === "sign_in")
      const letter = isRight ? ofCode(code) : LETTERS[purpose](otherPage)
      const now = currentTime()
      yield* sql`
        INSERT INTO sign_in (id, purpose, email, business_name, visitor_hash, secret_hash, network, created_at, expires_at)
        VALUES (${newId("sign_in")}, ${purpose}, ${email}, ${businessName}, ${sha256(visitor)}, ${isRight ? codeHash(code, visitor) : null},
          ${network}, ${PgTypes.timestamptz(now)}, ${PgTypes.timestamptz(now + CODE_MINUTES * MINUTE_MS)})`
      yield* emailTo(SERVICE, email, letter, isRight)
      return letter
    }),
  )
})

/** The newest sign-in by code of a browser, until it is used: its address and purpose. */
export const openSignIn = Effect.fn("signIn.open")(function* (visitor: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<SignInRow>`
    SELECT id, purpose, email, business_name, used_at FROM sign_in
    WHERE visitor_hash = ${sha256(visitor)} AND purpose IN ('sign_in', 'sign_up') ORDER BY id DESC LIMIT 1`
  return row === undefined || row.used_at !== null ? undefined : row
})

/** Marks invitations of an address as accepted: the address is proved. */
const joinAll = Effect.fnUntraced(function* (email: string) {
  const sql = yield* SqlClient.SqlClient
  const now = PgTypes.timestamptz(currentTime())
  yield* sql`
    UPDATE member SET joined_at = ${now}, invitation_hash = NULL, invited_until = NULL
    WHERE email = ${email} AND removed_at IS NULL AND joined_at IS NULL AND invited_until > ${now}`
})

/** Checks a code; each try counts. Returns the address that it proves. A sign-up creates the account with its owner. */
export const finishCode = Effect.fn("signIn.finishCode")(function* (visitor: string, code: string) {
  const sql = yield* SqlClient.SqlClient
  const now = PgTypes.timestamptz(currentTime())
  const proved = yield* sql.withTransaction(
    Effect.gen(function* () {
      const [row] = yield* sql<SignInRow>`
        UPDATE sign_in SET tries = tries + 1, used_at = CASE WHEN secret_hash = ${codeHash(code, visitor)} THEN ${now} END
        WHERE id = (
          SELECT id FROM sign_in WHERE visitor_hash = ${sha256(visitor)} AND purpose IN ('sign_in', 'sign_up') ORDER BY id DESC LIMIT 1
        ) AND used_at IS NULL AND expires_at > ${now} AND tries < ${MAX_TRIES}
        RETURNING id, purpose, email, business_name, used_at`
      // The transaction commits: a wrong try counts.
      if (row === undefined || row.used_at === null) return undefined
      const { email, purpose, business_name } = row
      yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.codesOfAddress}, hashtext(${email}))`
      // Of two sign-ups with one address, the second one signs in.
      if (purpose === "sign_up" && !(yield* isMember(email)))
        return { email, made: yield* createAccount({ businessName: business_name!, email }) }
      yield* joinAll(email)
      return { email, made: undefined }
    }),
  )
  return proved ?? (yield* WRONG)
})

/** Makes a link that signs in once. For the person who runs this installation: nothing is sent. */
export const createLink = Effect.fn("signIn.createLink")(function* (email: string, validMs: number) {
  const sql = yield* SqlClient.SqlClient
  const token = yield* newToken
  const now = currentTime()
  yield* sql`
    INSERT INTO sign_in (id, purpose, email, secret_hash, network, created_at, expires_at)
    VALUES (${newId("sign_in")}, 'link', ${email}, ${sha256(token)}, 'local', ${PgTypes.timestamptz(now)}, ${PgTypes.timestamptz(now + validMs)})`
  return token
})

/** Uses a link. Returns the address that it signs in. */
export const finishLink = Effect.fn("signIn.finishLink")(function* (token: string) {
  const sql = yield* SqlClient.SqlClient
  const now = PgTypes.timestamptz(currentTime())
  const [row] = yield* sql<SignInRow>`
    UPDATE sign_in SET used_at = ${now} WHERE secret_hash = ${sha256(token)} AND purpose = 'link' AND used_at IS NULL AND expires_at > ${now}
    RETURNING id, purpose, email, business_name, used_at`
  if (row === undefined) return yield* WRONG_LINK
  yield* joinAll(row.email)
  return row.email
})

/** The member that a link invites; undefined: it was used, or it has expired. */
export const findInvitation = Effect.fn("signIn.findInvitation")(function* (token: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ account_id: string; email: string; role: string; business_name: string }>`
    SELECT m.account_id, m.email, m.role, a.business_name FROM member m JOIN account a ON a.id = m.account_id
    WHERE m.invitation_hash = ${sha256(token)} AND m.removed_at IS NULL AND m.invited_until > ${PgTypes.timestamptz(currentTime())}`
  return row
})

/** Accepts an invitation. The link went to the address, so it proves it. */
export const acceptInvitation = Effect.fn("signIn.acceptInvitation")(function* (token: string) {
  const sql = yield* SqlClient.SqlClient
  const now = PgTypes.timestamptz(currentTime())
  const [row] = yield* sql<{ account_id: string; id: string; email: string }>`
    UPDATE member SET joined_at = ${now}, invitation_hash = NULL, invited_until = NULL
    WHERE invitation_hash = ${sha256(token)} AND removed_at IS NULL AND invited_until > ${now}
    RETURNING account_id, id, email`
  return (
    row ??
    (yield* problem("sign_in_invalid", "This invitation was used already, or it has expired: ask for a new one."))
  )
})

/** Begins a sign-in or a registration with a passkey: keeps its challenge for this browser, in place of its former one. */
export const keepChallenge = Effect.fn("signIn.keepChallenge")(function* (
  { visitor, network }: Visitor,
  challenge: string,
) {
  const sql = yield* SqlClient.SqlClient
  const now = currentTime()
  const keeping = Effect.gen(function* () {
    yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.codesOfNetwork}, hashtext(${network}))`
    yield* sql`DELETE FROM sign_in WHERE visitor_hash = ${sha256(visitor)} AND purpose = 'passkey'`
    return yield* sql`
      INSERT INTO sign_in (id, purpose, visitor_hash, secret_hash, network, created_at, expires_at)
      SELECT ${newId("sign_in")}, 'passkey', ${sha256(visitor)}, ${sha256(challenge)}, ${network}, ${PgTypes.timestamptz(now)},
        ${PgTypes.timestamptz(now + CODE_MINUTES * MINUTE_MS)}
      WHERE (
        SELECT count(*) FROM (
          SELECT FROM sign_in WHERE network = ${network} AND created_at > ${PgTypes.timestamptz(now - LIMIT_MS)} AND purpose = 'passkey'
          LIMIT ${CHALLENGES_OF_NETWORK}) c
      ) < ${CHALLENGES_OF_NETWORK}
      RETURNING 1`
  })
  const kept = yield* sql.withTransaction(keeping)
  if (kept.length === 0) return yield* TOO_MANY_CHALLENGES
})

/** Uses a challenge once. */
export const useChallenge = Effect.fnUntraced(function* (visitor: string, challenge: string) {
  const sql = yield* SqlClient.SqlClient
  const now = PgTypes.timestamptz(currentTime())
  const used = yield* sql`
    UPDATE sign_in SET used_at = ${now}
    WHERE visitor_hash = ${sha256(visitor)} AND purpose = 'passkey' AND secret_hash = ${sha256(challenge)} AND used_at IS NULL AND expires_at > ${now}
    RETURNING 1`
  return used.length > 0
})

/** Rows of one DELETE: a few milliseconds. */
const MAX_DELETED = 5_000

/** Deletes sign-ins that ended a day ago. */
export const purgeSignIns = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    DELETE FROM sign_in WHERE id IN (SELECT id FROM sign_in WHERE expires_at < ${PgTypes.timestamptz(currentTime() - KEPT_MS)} LIMIT ${MAX_DELETED})`
})
