/** Providers: accounts by their business type (decision J7). */

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

/** A business type holds in both environments: its history is kept with the live one. */
export const historyOf = ({ account_id }: Tenant): Tenant => ({ account_id, livemode: true })

const write = Effect.fnUntraced(function* (id: string, vertical: Vertical) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<AccountRow>`UPDATE account SET vertical = ${vertical} WHERE id = ${id} RETURNING *`
  return row!
})

/** Refuses what is no provider (404). */
export const requireProvider = ({ account_id }: Tenant) =>
  Effect.flatMap(findAccount(account_id), (account) =>
    account === undefined ? Effect.fail(noSuch("provider", account_id)) : Effect.void,
  )

/** Whether the provider's own choice is still open: approval is pending, or none was made yet. */
const isOpen = ({ live_access, vertical }: AccountRow): boolean =>
  vertical === null || (live_access !== "approved" && live_access !== "suspended")

/** The provider chooses its business type. */
export const chooseVertical = Effect.fn("provider.chooseVertical")(function* (tenant: Tenant, vertical: Vertical) {
  const account = (yield* lockAccount(tenant.account_id))!
  if (account.vertical === vertical) return renderProvider(account, tenant.livemode)
  if (!isOpen(account))
    return yield* problem(
      "vertical_locked",
      `The business type of an approved provider stays what it is (${account.vertical}): ask us to change it.`,
    )
  return renderProvider(yield* write(account.id, vertical), tenant.livemode)
})

/** An administrator changes a provider's business type, for a reason that is kept. */
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
