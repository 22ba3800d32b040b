/**
 * Joins a deployment (decision O1): copies the administrators' keys and the service's own secrets from another cell.
 * Then keys and links work in both cells, and an account can move between them. A second run copies the
 * administrators that were added or revoked since.
 */
import { timingSafeEqual } from "node:crypto"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Cell } from "../base/cell.ts"
import { rowsAsTable } from "../db/rows.ts"
import { SECRETS_CHANNEL, serviceSecrets } from "../security/secret/serviceSecrets.ts"
import { Vault } from "../security/secret/Vault.ts"
import { CellProblem } from "./CellProblem.ts"
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
  readonly sealed: Uint8Array
}

/** Reads and decrypts the service's secrets, by name. */
export const openServiceSecrets = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  const rows = yield* sql<Stored>`SELECT name, sealed FROM service_secret ORDER BY name`
  const opened = yield* Effect.forEach(rows, (row) =>
    Effect.map(vault.open(serviceSecrets.placeOf(row), row.sealed), (secret) => [row.name, secret] as const),
  )
  return new Map(opened)
})

type Secrets = Effect.Success<typeof openServiceSecrets>

/** Returns the names of secrets that both sides have with different values. */
export const differing = (one: Secrets, other: Secrets): ReadonlyArray<string> =>
  [...one].flatMap(([name, secret]) => {
    const theirs = other.get(name)
    if (theirs === undefined) return []
    const [a, b] = [Redacted.value(secret), Redacted.value(theirs)]
    return a.length === b.length && timingSafeEqual(a, b) ? [] : [name]
  })

/** Reads whether this cell's secrets are already used by links or stored idempotent responses. */
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
  const conflicting = differing(secrets, own)
  const wanted = [...secrets].filter(([name]) => !own.has(name) || conflicting.includes(name))
  yield* Effect.forEach(wanted, ([name, secret]) => {
    const sealed = vault.seal(serviceSecrets.placeOf({ name }), secret)
    return sql`
      INSERT INTO service_secret (name, sealed) VALUES (${name}, ${sealed})
      ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed`
  })
  if (wanted.length > 0) yield* sql`SELECT pg_notify(${SECRETS_CHANNEL}, '')`
  return wanted.length
})

/**
 * Joins this database to the deployment of the cell behind the client `from`. Returns the number of copied keys and secrets. Fails with
 * CellProblem if the two cannot be one deployment.
 */
export const join = Effect.fn("cell.join")(function* (from: SqlClient.SqlClient) {
  const sql = yield* SqlClient.SqlClient
  const there = <A, E, R>(program: Effect.Effect<A, E, R>) => Effect.provideService(program, SqlClient.SqlClient, from)
  const cell = yield* Cell
  const identity = yield* there(readIdentity)
  if (identity === undefined)
    return yield* new CellProblem({ message: "The other cell was never started: start its server first." })
  if (identity.id === cell)
    return yield* new CellProblem({
      message: `Both would be the cell ${cell}: set another CELL for this cell and its servers.`,
    })
  const secrets = yield* there(openServiceSecrets)
  const administrators = yield* there(readAdministrators)
  const copied = yield* sql.withTransaction(
    Effect.gen(function* () {
      yield* sql`LOCK TABLE service_secret IN EXCLUSIVE MODE`
      const own = yield* openServiceSecrets
      const conflicting = differing(secrets, own)
      if (conflicting.length > 0 && (yield* hasUsed))
        return yield* new CellProblem({
          message: `This cell has already used its own secrets (${conflicting.join(", ")}): after joining, its links would not work and its retries would not find their responses. A cell must join before it makes links, and before it gets requests with an Idempotency-Key, or a day after the last one.`,
        })
      yield* nameCell(true)
      return (yield* writeSecrets(secrets, own)) + (yield* writeAdministrators(administrators))
    }),
  )
  yield* there(from`UPDATE cell SET joined = true`)
  return copied
})
