/** Applies messengers' receipts to nudges, as the nudges' next events. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { problem } from "../../base/problem.ts"
import { sameForAll } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import type { Ref } from "../../db/tenant.ts"
import type { Receipt } from "../messenger/receipts.ts"
import { type NudgeRow, nudges } from "./nudge.ts"
import { type NudgeCommand, transitionNudges } from "./transition.ts"

/** The account in the callback URL of a provider that serves all accounts. */
const EVERY_ACCOUNT = "all"

const present = (ids: ReadonlyArray<string | null>): ReadonlyArray<string> => ids.filter((id) => id !== null)

/** Groups receipts by nudge, in the order of arrival. */
const byNudge = (receipts: ReadonlyArray<Receipt>, rows: ReadonlyArray<NudgeRow>) => {
  const byId = new Map(rows.map((row) => [row.id, row]))
  const byMessageId = new Map(rows.map((row) => [row.message_id, row]))
  return Map.groupBy(receipts, ({ nudgeId, messageId }) =>
    nudgeId === null ? byMessageId.get(messageId) : byId.get(nudgeId),
  )
}

const eventOf = ({ channel, delivered, reason }: Receipt, at: number): NudgeCommand["event"] =>
  delivered
    ? { type: "receipt.delivered", at, channel }
    : { type: "receipt.failed", at, channel, reason: reason ?? "message_rejected" }

/** Applies receipts to these nudges in the running transaction. */
const applyTo = Effect.fnUntraced(function* (refs: ReadonlyArray<Ref>, receipts: ReadonlyArray<Receipt>) {
  // All rows are locked together, in ID order.
  let rows = yield* nudges.lock(refs)
  const waiting = byNudge(receipts, rows)
  const lists = rows.map((row) => waiting.get(row) ?? [])
  // Step n applies the nth receipt of each nudge: receipts of one nudge in order, all nudges together.
  for (let step = 0; lists.some((list) => list.length > step); step++) {
    const at = currentTime()
    const commands = rows.flatMap((row, index): ReadonlyArray<NudgeCommand> => {
      const receipt = lists[index]![step]
      return receipt === undefined ? [] : [{ row, event: eventOf(receipt, at) }]
    })
    const changed = new Map((yield* transitionNudges(commands, sameForAll(at))).map((row) => [row.id, row]))
    rows = rows.map((row) => changed.get(row.id) ?? row)
  }
})

/**
 * Applies receipts idempotently. Receipts of another account's nudges change nothing. A receipt by message ID may arrive before
 * that ID is stored: then this fails, and the messenger sends it again.
 */
export const applyReceipts = Effect.fn("nudge.receipts")(function* (account: string, all: ReadonlyArray<Receipt>) {
  const receipts = all.filter(({ nudgeId, messageId }) => nudgeId !== null || messageId !== null)
  if (receipts.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const ofAccount = account === EVERY_ACCOUNT ? sql`true` : sql`account_id = ${account}`
  const byId = sql`id = ANY(${present(receipts.map(({ nudgeId }) => nudgeId))}::text[])`
  const byMessageId = sql`message_id = ANY(${present(receipts.map(({ messageId }) => messageId))}::text[])`
  // Two queries, each with an index. One with OR would use none.
  const found = yield* sql<Ref & { readonly message_id: string | null }>`
      SELECT account_id, livemode, id, message_id FROM nudge WHERE livemode AND ${ofAccount} AND ${byId}
      UNION SELECT account_id, livemode, id, message_id FROM nudge WHERE livemode AND ${ofAccount} AND ${byMessageId}`
  // One transaction per account: it locks the account's usage counter until it ends.
  for (const [, refs] of Map.groupBy(found, ({ account_id }) => account_id))
    yield* sql.withTransaction(applyTo(refs, receipts))
  const foundIds = new Set(found.map(({ message_id }) => message_id))
  if (receipts.some(({ nudgeId, messageId }) => nudgeId === null && !foundIds.has(messageId)))
    return yield* problem("message_unknown", "No nudge has this message ID yet: send the receipt again later.")
})
