/** Records sign-ins in the activity of the account that they show (decision R7). */
import { Effect } from "effect"
import { TenantDatabase } from "../../db/TenantDatabase.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { activity, recordActivity } from "../../http/activity.ts"
import { membersOf } from "./members.ts"
import type { Method } from "./sessions.ts"

export const recordSignIn = Effect.fnUntraced(function* (
  { account, member }: { readonly account: string; readonly member: string },
  email: string,
  method: Method,
  { address, requestId }: { readonly address: string; readonly requestId: string },
) {
  const { writing } = yield* TenantDatabase
  const tenant = membersOf(account)
  const actor = { actor_kind: "member", actor_id: member, actor_name: email, address, request_id: requestId } as const
  yield* writing(
    tenant,
    Effect.map(unitOfWork, (unit) =>
      recordActivity(unit, [activity(tenant, actor, `session.${method}`, { kind: "member", id: member })]),
    ),
  )
})
