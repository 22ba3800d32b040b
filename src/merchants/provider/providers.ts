/** Reads and changes the business type of providers (decision J7). A provider is an account. */

import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { newId } from "../../base/ids.ts"
import { noSuch, problem } from "../../base/problem.ts"
import { currentTime } from "../../base/wallClock.ts"
import * as column from "../../db/columns.ts"
import { columnsOf, type RowOf, table } from "../../db/table.ts"
import type { Tenant } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { commonOf } from "../../http/response.ts"
import { type AccountRow, findAccount, lockAccount } from "../account/accounts.ts"
import { VERTICALS, type Vertical } from "../account/verticals.ts"
import type { Provider, ProviderChange } from "./api.ts"

const renderProvider = (row: AccountRow, livemode: boolean): typeof Provider.Type => ({
  ...commonOf("provider", { ...row, livemode }),
  vertical: row.vertical,
  live_access: row.live_access,
})

const { immutable } = columnsOf()

export const providerChanges = table(
  "provider_history",
  { noun: "provider change", ids: "provider_change" },
  {
    previous_vertical: immutable(column.nullable(column.oneOf(VERTICALS))),
    new_vertical: immutable(column.oneOf(VERTICALS)),
    administrator: immutable(column.text),
    reason: immutable(column.text),
    created_at: immutable(column.instant),
  },
)

export type ProviderChangeRow = RowOf<typeof providerChanges>

export const renderProviderChange = (row: ProviderChangeRow, livemode: boolean): typeof ProviderChange.Type => ({
  ...commonOf("provider_change", { ...row, livemode }),
  previous_vertical: row.previous_vertical,
  new_vertical: row.new_vertical,
  administrator: row.administrator,
  reason: row.reason,
})

/** The tenant of a provider's history. The business type is the same in both environments, so its history is stored as live. */
export const historyOf = ({ account_id }: Tenant): Tenant => ({ account_id, livemode: true })

const write = Effect.fnUntraced(function* (id: string, vertical: Vertical) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<AccountRow>`UPDATE account SET vertical = ${vertical} WHERE id = ${id} RETURNING *`
  return row!
})

/** Fails with 404 if the account is no provider. */
export const requireProvider = ({ account_id }: Tenant) =>
  Effect.flatMap(findAccount(account_id), (account) =>
    account === undefined ? Effect.fail(noSuch("provider", account_id)) : Effect.void,
  )

/** Whether the provider may still choose: it has no business type yet, or live access was never approved. */
export const isOpen = ({ live_access, vertical }: AccountRow): boolean =>
  vertical === null || (live_access !== "approved" && live_access !== "suspended")

/** Sets the business type that the provider chose. */
export const chooseVertical = Effect.fn("provider.chooseVertical")(function* (tenant: Tenant, vertical: Vertical) {
  const account = (yield* lockAccount(tenant.account_id))!
  if (account.vertical === vertical) return renderProvider(account, tenant.livemode)
  if (!isOpen(account))
    return yield* problem(
      "vertical_locked",
      `An approved provider cannot change its business type (${account.vertical}): ask us to change it.`,
    )
  return renderProvider(yield* write(account.id, vertical), tenant.livemode)
})

/** Changes a provider's business type for an administrator, and stores the reason. */
export const changeVertical = Effect.fn("provider.changeVertical")(function* (
  tenant: Tenant,
  input: { readonly vertical: Vertical; readonly reason: string; readonly administrator: string },
) {
  const account = (yield* lockAccount(tenant.account_id)) ?? (yield* noSuch("provider", tenant.account_id))
  if (account.vertical === input.vertical) return renderProvider(account, tenant.livemode)
  ;(yield* unitOfWork).insert(providerChanges, [
    {
      ...historyOf(tenant),
      id: newId("provider_change"),
      previous_vertical: account.vertical,
      new_vertical: input.vertical,
      administrator: input.administrator,
      reason: input.reason,
      created_at: currentTime(),
    },
  ])
  return renderProvider(yield* write(account.id, input.vertical), tenant.livemode)
})
