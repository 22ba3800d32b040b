/**
 * Joining a deployment (decision O1): this cell takes over the administrators' keys and the service's own secrets of another
 * one, so that keys and links mean the same in both, and an account can move between them. Run again, it brings what has
 * changed since: administrators that were added or revoked.
 */
import { timingSafeEqual } from "node:crypto"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Cell } from "../base/cell.ts"
import { rowsAsTable } from "../db/rows.ts"
import { SECRETS_CHANNEL, serviceSecrets } from "../security/secret/serviceSecrets.ts"
import { Vault } from "../security/secret/Vault.ts"
import { CellsApart } from "./CellsApart.ts"
import { nameCell, readIdentity } from "./identity.ts"

interface Administrator {
  readonly id: string
  readonly name: string
  /** In hexadecimal. */
  readonly hash: string
  readonly last4: string
  readonly created_at: number
  readonly revoked_at: number | null
}

const ADMINISTRATOR = {
  id: "text",
  name: "text",
  hash: "text",
  last4: "text",
  created_at: "timestamptz",
  revoked_at: "timestamptz",
} as const

interface Stored {
  readonly name: string
  readonly value: Uint8Array | null
  readonly sealed: Uint8Array | null
}

/** The service's secrets in a database, opened. */
export const openServiceSecrets = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  const rows = yield* sql<Stored>`SELECT name, value, sealed FROM service_secret ORDER BY name`
  const opened = yield* Effect.forEach(rows, (row) =>
    Effect.map(
      row.sealed === null
        ? Effect.succeed(Redacted.make(Buffer.from(row.value!)))
        : vault.open(serviceSecrets.placeOf(row), row.sealed),
      (secret) => [row.name, secret] as const,
    ),
  )
  return new Map(opened)
})

type Secrets = Effect.Success<typeof openServiceSecrets>

/** The names of secrets that both have, and that differ. */
export const differing = (one: Secrets, other: Secrets): ReadonlyArray<string> =>
  [...one].flatMap(([name, secret]) => {
    const theirs = other.get(name)
    if (theirs === undefined) return []
    const [a, b] = [Redacted.value(secret), Redacted.value(theirs)]
    return a.length === b.length && timingSafeEqual(a, b) ? [] : [name]
  })

/** Whether links, or answers that are kept for a key that asks again, were made here with the secrets that are here. */
const hasUsed = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ found: boolean }>`
    SELECT EXISTS (SELECT 1 FROM checkout_session) OR EXISTS (SELECT 1 FROM instalment_plan)
      OR EXISTS (SELECT 1 FROM nudge WHERE link_token_hash IS NOT NULL) OR EXISTS (SELECT 1 FROM idempotency_record) AS found`
  return row!.found
})

const readAdministrators = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Administrator>`
    SELECT id, name, encode(hash, 'hex') AS hash, last4, created_at, revoked_at FROM administrator_key ORDER BY id`
})

const writeAdministrators = Effect.fnUntraced(function* (rows: ReadonlyArray<Administrator>) {
  const sql = yield* SqlClient.SqlClient
  const written = yield* sql`
    INSERT INTO administrator_key (id, name, hash, last4, created_at, revoked_at)
    SELECT id, name, decode(hash, 'hex'), last4, created_at, revoked_at FROM ${rowsAsTable(rows, ADMINISTRATOR)} r
    ON CONFLICT (id) DO UPDATE SET revoked_at = excluded.revoked_at
      WHERE administrator_key.revoked_at IS NULL AND excluded.revoked_at IS NOT NULL
    RETURNING 1`
  return written.length
})

const writeSecrets = Effect.fnUntraced(function* (secrets: Secrets, own: Secrets) {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  const others = differing(secrets, own)
  const wanted = [...secrets].filter(([name]) => !own.has(name) || others.includes(name))
  yield* Effect.forEach(wanted, ([name, secret]) => {
    const sealed = vault.seal(serviceSecrets.placeOf({ name }), secret)
    return sql`
      INSERT INTO service_secret (name, sealed) VALUES (${name}, ${sealed})
      ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, value = NULL`
  })
  if (wanted.length > 0) yield* sql`SELECT pg_notify(${SECRETS_CHANNEL}, '')`
  return wanted.length
})

/**
 * Joins the deployment of the cell behind `from`: a program's clients of both databases. Returns how many keys and secrets were
 * copied. Fails with CellsApart where the two cannot be one deployment.
 */
export const join = Effect.fn("cell.join")(function* (from: SqlClient.SqlClient) {
  const sql = yield* SqlClient.SqlClient
  const there = <A, E, R>(program: Effect.Effect<A, E, R>) => Effect.provideService(program, SqlClient.SqlClient, from)
  const cell = yield* Cell
  const identity = yield* there(readIdentity)
  if (identity === undefined)
    return yield* new CellsApart({ message: "The other cell was never started: start its server first." })
  if (identity.id === cell)
    return yield* new CellsApart({
      message: `Both would be the cell ${cell}: give this one, and its servers, another CELL.`,
    })
  const secrets = yield* there(openServiceSecrets)
  const administrators = yield* there(readAdministrators)
  const copied = yield* sql.withTransaction(
    Effect.gen(function* () {
      yield* sql`LOCK TABLE service_secret IN EXCLUSIVE MODE`
      const own = yield* openServiceSecrets
      const others = differing(secrets, own)
      if (others.length > 0 && (yield* hasUsed))
        return yield* new CellsApart({
          message: `This cell has used secrets of its own (${others.join(", ")}): links that it made would lead nowhere, and retries would find no answer. A cell joins before it makes any links, and before requests with an Idempotency-Key, or a day after the last one.`,
        })
      yield* nameCell(true)
      return (yield* writeSecrets(secrets, own)) + (yield* writeAdministrators(administrators))
    }),
  )
  yield* there(from`UPDATE cell SET joined = true`)
  return copied
})
