/** Accounts (spec 2.13) and the making of their keys. */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { Tenant } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { generateKey, type KeyType } from "../key/Key.ts"
import { formatInstant } from "../time.ts"

export interface AccountRow {
  readonly id: string
  readonly business_name: string
  readonly email: string | null
  readonly vertical: string
  readonly api_plan: string
  readonly live_access: string
  readonly created_at: number
}

/** The account as one of its environments shows it. */
export const renderAccount = (row: AccountRow, livemode: boolean) => ({
  id: row.id,
  object: "account" as const,
  livemode,
  created_at: formatInstant(row.created_at),
  business_name: row.business_name,
  api_plan: row.api_plan,
  live_access: row.live_access,
})

export const findAccount = (id: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<AccountRow>`SELECT * FROM account WHERE id = ${id}`
    return row
  })

export const listAccounts = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<AccountRow>`SELECT * FROM account ORDER BY id`
})

/** Makes a key and answers it in full: the only time that anyone sees it. */
export const createKey = (tenant: Tenant, type: KeyType) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { key, hash, prefix, last4 } = generateKey(type, tenant.livemode)
    const id = newId("key")
    yield* sql`INSERT INTO api_key ${sql.insert({ ...tenant, id, type, hash, prefix, last4, created_at: new Date() })}`
    return { id, key: Redacted.value(key) }
  })

export interface NewAccount {
  readonly businessName: string
  readonly email?: string
  readonly vertical?: string
  readonly apiPlan?: string
  readonly liveAccess?: "approved"
}

/** An account with a secret and a publishable key for the sandbox, and for live where its access is approved. */
export const createAccount = (input: NewAccount) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const id = newId("account")
    return yield* sql.withTransaction(
      Effect.gen(function* () {
        const [row] = yield* sql<AccountRow>`
          INSERT INTO account ${sql.insert({
            id,
            business_name: input.businessName,
            email: input.email ?? null,
            vertical: input.vertical ?? "generic",
            api_plan: input.apiPlan ?? "starter",
            live_access: input.liveAccess ?? "not_requested",
            created_at: new Date(),
          })} RETURNING *`
        const key = (livemode: boolean, type: KeyType) =>
          Effect.map(createKey({ account_id: id, livemode }, type), ({ key }) => key)
        const sandbox = { sk_test: yield* key(false, "secret"), pk_test: yield* key(false, "publishable") }
        const live =
          input.liveAccess === "approved"
            ? { sk_live: yield* key(true, "secret"), pk_live: yield* key(true, "publishable") }
            : {}
        return { account: row!, keys: { ...sandbox, ...live } }
      }),
    )
  })
