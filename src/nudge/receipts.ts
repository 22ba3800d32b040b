/** What messengers say of nudges that they took, as the nudges' next events. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Ref } from "../db/tenant.ts"
import { advance } from "../lifecycle/advance.ts"
import type { Receipt } from "../messenger/receipts.ts"
import { commitNudges } from "./commit.ts"
import { nudgeLifecycle } from "./Nudge.ts"
import { lockNudges } from "./rows.ts"

/** In a callback's address: the provider serves every account. */
const EVERY_ACCOUNT = "all"

const present = (ids: ReadonlyArray<string | null>): ReadonlyArray<string> => ids.filter((id) => id !== null)

/** Applies receipts, each once however often it comes; those of no nudge of the account change nothing. */
export const applyReceipts = (account: string, receipts: ReadonlyArray<Receipt>) =>
  Effect.gen(function* () {
    if (receipts.length === 0) return
    const sql = yield* SqlClient.SqlClient
    const mine = account === EVERY_ACCOUNT ? sql`true` : sql`account_id = ${account}`
    const named = sql`id = ANY(${present(receipts.map(({ nudgeId }) => nudgeId))}::text[])`
    const called = sql`message_id = ANY(${present(receipts.map(({ messageId }) => messageId))}::text[])`
    yield* sql.withTransaction(
      Effect.gen(function* () {
        // Two look-ups by index rather than one by none.
        const refs = yield* sql<Ref & { message_id: string | null }>`
          SELECT account_id, livemode, id, message_id FROM nudge WHERE livemode AND ${mine} AND ${named}
          UNION SELECT account_id, livemode, id, message_id FROM nudge WHERE livemode AND ${mine} AND ${called}`
        for (const { channel, nudgeId, messageId, delivered, reason } of receipts) {
          const ref = refs.find((one) => (nudgeId === null ? one.message_id === messageId : one.id === nudgeId))
          const [row] = ref === undefined ? [] : yield* lockNudges([ref])
          if (row === undefined) continue
          const at = Date.now()
          const event = delivered
            ? { type: "receipt.delivered", at, channel }
            : { type: "receipt.failed", at, channel, reason: reason ?? "message_rejected" }
          yield* commitNudges(advance(nudgeLifecycle, [{ row, event }]), at)
        }
      }),
    )
  })
