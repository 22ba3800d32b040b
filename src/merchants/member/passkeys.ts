/** Passkeys (decision R4): WebAuthn credentials by which a person signs in. */

import { PgTypes } from "@effect/sql-pg"
import {
  generateAuthenticationOptions,
  generateRegistrationOptions,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
} from "@simplewebauthn/server"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { newId } from "../../base/ids.ts"
import { problem } from "../../base/problem.ts"
import { currentTime } from "../../base/wallClock.ts"
import { keepChallenge, useChallenge, type Visitor } from "./signIns.ts"

/** More than the devices of a person: a list of them is one page. */
const MAX_PASSKEYS = 20
/** The column is as long. */
const MAX_NAME = 100

export interface PasskeyRow {
  readonly id: string
  readonly email: string
  readonly credential: string
  readonly public_key: Uint8Array
  readonly counter: number
  readonly transports: ReadonlyArray<string>
  readonly name: string
  readonly created_at: number
  readonly last_used_at: number | null
}

/** The site that passkeys belong to: its host name and its origin. */
export interface Site {
  readonly id: string
  readonly origin: string
}

/** What every answer of a browser must match. */
const expected = (challenge: string, { id, origin }: Site) => ({
  expectedChallenge: challenge,
  expectedOrigin: origin,
  expectedRPID: id,
  requireUserVerification: true,
})

const NOT_ACCEPTED = problem("sign_in_invalid", "This passkey was not accepted. Sign in with a code.")

export const listPasskeys = Effect.fn("passkey.list")(function* (email: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<PasskeyRow>`SELECT * FROM passkey WHERE email = ${email} ORDER BY id`
})

export const removePasskey = Effect.fn("passkey.remove")(function* (email: string, id: string) {
  const sql = yield* SqlClient.SqlClient
  return (yield* sql`DELETE FROM passkey WHERE email = ${email} AND id = ${id} RETURNING 1`).length > 0
})

/** Checks an answer of a browser with the library, which throws at a wrong one. */
const verify = <A>(check: () => Promise<A>) => Effect.mapError(Effect.tryPromise(check), () => NOT_ACCEPTED)

/** The options for a new passkey, for the browser. */
export const registrationOptions = Effect.fn("passkey.registrationOptions")(function* (
  visitor: Visitor,
  email: string,
  site: Site,
) {
  const existing = yield* listPasskeys(email)
  if (existing.length >= MAX_PASSKEYS)
    return yield* problem("member_state_invalid", `You have ${MAX_PASSKEYS} passkeys: remove one first.`)
  const options = yield* Effect.promise(() =>
    generateRegistrationOptions({
      rpName: "Recurring billing",
      rpID: site.id,
      userName: email,
      userID: Buffer.from(email),
      attestationType: "none",
      excludeCredentials: existing.map(({ credential }) => ({ id: credential })),
      authenticatorSelection: { residentKey: "required", userVerification: "required" },
    }),
  )
  yield* keepChallenge(visitor, options.challenge)
  return options
})

/** The challenge that an answer contains; undefined: it cannot be read. */
const challengeIn = (answer: unknown): string | undefined => {
  try {
    const { clientDataJSON } = (answer as { readonly response: { readonly clientDataJSON: string } }).response
    const { challenge } = JSON.parse(Buffer.from(clientDataJSON, "base64url").toString("utf8"))
    return typeof challenge === "string" ? challenge : undefined
  } catch {
    return undefined
  }
}

/** Uses the challenge of an answer, which a browser may do once. */
const takeChallenge = Effect.fnUntraced(function* (visitor: string, answer: unknown) {
  const challenge = challengeIn(answer)
  return challenge !== undefined && (yield* useChallenge(visitor, challenge)) ? challenge : yield* NOT_ACCEPTED
})

/** Adds the passkey that a browser has made. */
export const addPasskey = Effect.fn("passkey.add")(function* (
  visitor: string,
  email: string,
  site: Site,
  name: string,
  answer: unknown,
) {
  const challenge = yield* takeChallenge(visitor, answer)
  const { verified, registrationInfo } = yield* verify(() =>
    verifyRegistrationResponse({
      response: answer as Parameters<typeof verifyRegistrationResponse>[0]["response"],
      ...expected(challenge, site),
    }),
  )
  if (!verified) return yield* NOT_ACCEPTED
  const { id: credential, publicKey, counter, transports = [] } = registrationInfo.credential
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO passkey (id, email, credential, public_key, counter, transports, name, created_at)
    SELECT ${newId("passkey")}, ${email}, ${credential}, ${publicKey}, ${counter}, ${transports}::text[], ${name.trim().slice(0, MAX_NAME) || "Passkey"},
      ${PgTypes.timestamptz(currentTime())}
    WHERE (SELECT count(*) FROM passkey WHERE email = ${email}) < ${MAX_PASSKEYS} ON CONFLICT (credential) DO NOTHING`
})

/** The options for a sign-in, for the browser. They name no passkey: the person chooses one of those of this site. */
export const signInOptions = Effect.fn("passkey.signInOptions")(function* (visitor: Visitor, site: Site) {
  const options = yield* Effect.promise(() =>
    generateAuthenticationOptions({ rpID: site.id, userVerification: "required" }),
  )
  yield* keepChallenge(visitor, options.challenge)
  return options
})

/** Checks a passkey. Returns the address of its person. */
export const finishPasskey = Effect.fn("passkey.finish")(function* (visitor: string, site: Site, answer: unknown) {
  const challenge = yield* takeChallenge(visitor, answer)
  const sql = yield* SqlClient.SqlClient
  const { id } = answer as { readonly id?: unknown }
  const [row] = typeof id === "string" ? yield* sql<PasskeyRow>`SELECT * FROM passkey WHERE credential = ${id}` : []
  if (row === undefined) return yield* NOT_ACCEPTED
  const { verified, authenticationInfo } = yield* verify(() =>
    verifyAuthenticationResponse({
      response: answer as Parameters<typeof verifyAuthenticationResponse>[0]["response"],
      ...expected(challenge, site),
      credential: { id: row.credential, publicKey: new Uint8Array(row.public_key), counter: Number(row.counter) },
    }),
  )
  if (!verified) return yield* NOT_ACCEPTED
  yield* sql`
    UPDATE passkey SET counter = ${authenticationInfo.newCounter}, last_used_at = ${PgTypes.timestamptz(currentTime())} WHERE id = ${row.id}`
  return row.email
})
