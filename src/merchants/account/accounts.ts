/** Reads, creates and changes accounts. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { decide, restore, stateName } from "../../../machines/decide.ts"
import { type LiveAccess, type LiveAccessMove, liveAccessMachine } from "../../../machines/live_access.ts"
import type { ApiPlan } from "../../base/apiPlans.ts"
import { newId } from "../../base/ids.ts"
import { formatInstant } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { livesHere } from "../../db/tenant.ts"
import { SERVICE_ACCOUNT } from "../../ledger/chart.ts"
import type { RailName } from "../../rails/rail/Rail.ts"
import { createKey } from "../../security/key/apiKeys.ts"
import type { KeyType } from "../../security/key/key.ts"
import type { Account } from "./api.ts"
import type { Vertical } from "./verticals.ts"

export interface AccountRow {
  readonly id: string
  readonly business_name: string
  readonly email: string | null
  readonly vertical: Vertical | null
  readonly api_plan: ApiPlan
  readonly live_access: LiveAccess
  /** The rail of new live payment methods (decision P4). */
  readonly rail: RailName
  readonly created_at: number
}

/** Renders the account as the API shows it in one environment. */
export const renderAccount = (row: AccountRow, livemode: boolean): typeof Account.Type => ({
  id: row.id,
  object: "account",
  livemode,
  created_at: formatInstant(row.created_at),
  business_name: row.business_name,
  api_plan: row.api_plan,
  live_access: row.live_access,
})

export const findAccount = Effect.fnUntraced(function* (id: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<AccountRow>`SELECT * FROM account WHERE id = ${id} AND id <> ${SERVICE_ACCOUNT}`
  return row
})

/** Finds any account that has books: a merchant's, or the service's own. */
export const findBooksOwner = Effect.fnUntraced(function* (id: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<AccountRow>`SELECT * FROM account WHERE id = ${id}`
  return row
})

export const listAccounts = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<AccountRow>`SELECT * FROM account a WHERE id <> ${SERVICE_ACCOUNT} AND ${livesHere(sql, "a", "id")} ORDER BY id`
})

/** Locks the account's row (FOR NO KEY UPDATE: rows that reference it can still be inserted). Undefined if there is none. */
export const lockAccount = Effect.fnUntraced(function* (id: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] =
    yield* sql<AccountRow>`SELECT * FROM account WHERE id = ${id} AND id <> ${SERVICE_ACCOUNT} FOR NO KEY UPDATE`
  return row
})

export interface NewAccount {
  readonly businessName: string
  /** The address of its owner. */
  readonly email?: string
  readonly vertical?: string
  readonly apiPlan?: string
  readonly liveAccess?: "approved"
}

/**
 * Inserts an account in the running transaction, with its owner and a secret and a publishable sandbox key. If its live access is approved,
 * it also gets live keys.
 */
export const insertAccount = Effect.fn("account.insert")(function* (input: NewAccount) {
  const sql = yield* SqlClient.SqlClient
  const id = newId("account")
  const [row] = yield* sql<AccountRow>`
    INSERT INTO account ${sql.insert({
      id,
      business_name: input.businessName,
      email: input.email ?? null,
      vertical: input.vertical ?? null,
      api_plan: input.apiPlan ?? "starter",
      live_access: input.liveAccess ?? "not_requested",
      created_at: new Date(currentTime()),
    })} RETURNING *`
  if (input.email !== undefined) {
    yield* sql`
      INSERT INTO member ${sql.insert({
        account_id: id,
        livemode: true,
        id: newId("member"),
        email: input.email.toLowerCase(),
        role: "owner",
        created_at: new Date(currentTime()),
        joined_at: new Date(currentTime()),
      })}`
  }
  const key = (livemode: boolean, type: KeyType) =>
    Effect.map(createKey({ account_id: id, livemode }, type), ({ key }) => key)
  const sandbox = { sk_test: yield* key(false, "secret"), pk_test: yield* key(false, "publishable") }
  const live =
    input.liveAccess === "approved"
      ? { sk_live: yield* key(true, "secret"), pk_live: yield* key(true, "publishable") }
      : {}
  return { account: row!, keys: { ...sandbox, ...live } }
})

/** Runs `insertAccount` in a new transaction. */
export const createAccount = Effect.fn("account.create")(function* (input: NewAccount) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(insertAccount(input))
})

/** Changes the name of the business, in the running transaction. */
export const renameAccount = Effect.fn("account.rename")(function* (id: string, businessName: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`UPDATE account SET business_name = ${businessName} WHERE id = ${id}`
})

/** Changes an account's live access (decision J4). Undefined: no such account; `refused`: not allowed from its current state. */
export const transitionLiveAccess = Effect.fn("account.moveLiveAccess")(function* (id: string, event: LiveAccessMove) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      const account = yield* lockAccount(id)
      if (account === undefined) return undefined
      const current = restore(liveAccessMachine, account.live_access, {})
      const { changed, snapshot } = decide(liveAccessMachine, current, { type: event, at: currentTime() })
      if (!changed) return { account, refused: true }
      const [row] = yield* sql<AccountRow>`
        UPDATE account SET live_access = ${stateName(snapshot)}, live_since = ${event === "approve" ? sql`now()` : sql`live_since`}
        WHERE id = ${id} RETURNING *`
      return { account: row!, refused: false }
    }),
  )
})

/** Changes an account's API plan. The change is stored, so that invoices charge each plan for its share of the month. */
export const setPlan = Effect.fn("account.setPlan")(function* (id: string, plan: ApiPlan) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      const account = yield* lockAccount(id)
      if (account === undefined || account.api_plan === plan) return account
      yield* sql`
        INSERT INTO account_plan_change ${sql.insert({
          account_id: id,
          livemode: true,
          id: newId("plan_change"),
          previous_plan: account.api_plan,
          new_plan: plan,
          created_at: new Date(currentTime()),
        })}`
      const [row] = yield* sql<AccountRow>`UPDATE account SET api_plan = ${plan} WHERE id = ${id} RETURNING *`
      return row
    }),
  )
})
