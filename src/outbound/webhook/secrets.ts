/** The signing secrets of endpoints, encrypted at rest. Requests write them and never read them (decision I1). */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { problem } from "../../base/problem.ts"
import { formatInstant } from "../../base/time.ts"
import type { ConfigProblem } from "../../config/Config.ts"
import { isRef, type Ref, type Tenant } from "../../db/tenant.ts"
import type { SecretTable } from "../../security/secret/rotate.ts"
import { MARK_BYTES, type Place, Vault } from "../../security/secret/Vault.ts"
import { newSecret } from "./signature.ts"

/** Secrets that sign together (decision I1). Each makes the header longer, and a merchant needs few rolls within a day. */
const MAX_SECRETS = 5

interface SecretKey extends Tenant {
  readonly webhook_endpoint_id: string
}

const placeOf = ({ account_id, livemode, webhook_endpoint_id }: SecretKey): Place => [
  "webhook_secret",
  account_id,
  livemode,
  webhook_endpoint_id,
]

const placeAt = (endpoint: Ref): Place => placeOf({ ...endpoint, webhook_endpoint_id: endpoint.id })

export const webhookSecrets: SecretTable<SecretKey> = {
  name: "webhook_secret",
  key: { account_id: "text", livemode: "boolean", webhook_endpoint_id: "text", id: "bigint" },
  placeOf,
}

/** Creates an endpoint's next secret and returns it. It is never shown again. */
export const insertSecret = Effect.fnUntraced(function* (endpoint: Ref) {
  const sql = yield* SqlClient.SqlClient
  const secret = newSecret()
  const sealed = (yield* Vault).seal(placeAt(endpoint), Redacted.make(secret))
  yield* sql`
    INSERT INTO webhook_secret (account_id, livemode, webhook_endpoint_id, sealed)
    VALUES (${endpoint.account_id}, ${endpoint.livemode}, ${endpoint.id}, ${sealed})`
  return secret
})

const IS_LIVE = `
  (s.account_id, s.livemode, s.webhook_endpoint_id) = (e.account_id, e.livemode, e.id) AND (s.expires_at IS NULL OR s.expires_at > now())`

/** Refuses a new secret while the maximum number of secrets sign: none may stop before its announced end. The endpoint must be locked. */
export const refuseMore = Effect.fnUntraced(function* (endpoint: Ref) {
  const sql = yield* SqlClient.SqlClient
  const [live] = yield* sql<{ count: number; until: number | null }>`
    SELECT count(*) AS count, min(s.expires_at) AS until
    FROM webhook_endpoint e JOIN webhook_secret s ON ${sql.literal(IS_LIVE)} WHERE ${isRef(sql, endpoint, "e")}`
  const { count, until } = live!
  if (count >= MAX_SECRETS)
    return yield* problem(
      "webhook_secret_limit_reached",
      `${count} secrets sign already: roll again after ${formatInstant(until!)}, when the oldest one expires.`,
    )
})

/** SQL: the live secrets of the endpoint `e`, newest first, as `openSecrets` reads them: encrypted, in hexadecimal. */
export const LIVE_SECRETS = `
  SELECT encode(s.sealed, 'hex') AS stored FROM webhook_secret s WHERE ${IS_LIVE} ORDER BY s.id DESC LIMIT ${MAX_SECRETS}`

/** SQL: whether the keys of this process decrypt the secrets of the endpoint `e`, judged by their marks. */
export const opensSecrets = (sql: SqlClient.SqlClient, { marks }: Vault["Service"]): Fragment => sql`
  NOT EXISTS (
    SELECT 1 FROM webhook_secret s
    WHERE ${sql.literal(IS_LIVE)} AND encode(substring(s.sealed FROM 1 FOR ${MARK_BYTES}::integer), 'hex') <> ALL(${marks}::text[]))`

/** Decrypts an endpoint's secrets. Fails if no key of this process opens one of them. */
export const openSecrets = (
  endpoint: Ref,
  stored: ReadonlyArray<string>,
): Effect.Effect<ReadonlyArray<Redacted.Redacted<string>>, ConfigProblem, Vault> =>
  Effect.flatMap(Vault, (vault) =>
    Effect.forEach(stored, (one) =>
      Effect.map(vault.open(placeAt(endpoint), Buffer.from(one, "hex")), (opened) =>
        Redacted.make(Redacted.value(opened).toString()),
      ),
    ),
  )

/** Reads the live secrets of an endpoint. A missing encryption key is a defect: the caller cannot fix it. */
export const readSecrets = Effect.fnUntraced(function* (endpoint: Ref) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ stored: string }>`
    SELECT l.stored FROM webhook_endpoint e CROSS JOIN LATERAL (${sql.literal(LIVE_SECRETS)}) l
    WHERE ${isRef(sql, endpoint, "e")}`
  const stored = rows.map((row) => row.stored)
  return yield* Effect.orDie(openSecrets(endpoint, stored))
})

/** Logs how many endpoints this process leaves to others because it cannot open their secrets. */
export const reportUnopened = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  const [row] = yield* sql<{ count: number; one: string | null }>`
    SELECT count(*) AS count, min(e.id) AS one FROM webhook_endpoint e WHERE e.state = 'enabled' AND NOT ${opensSecrets(sql, vault)}`
  const { count, one } = row!
  if (count > 0)
    yield* Effect.logError(
      `No ENCRYPTION_KEY of this process opens the secrets of ${count} webhook endpoints, such as ${one}: it delivers nothing to them.`,
    )
})
