/** What messengers say of nudges that they took, as the nudges' next events. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { problem } from "../../base/problem.ts"
import { sameForAll } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import type { Ref } from "../../db/tenant.ts"
import type { Receipt } from "../messenger/receipts.ts"
import { type NudgeRow, nudges } from "./nudge.ts"
import { type NudgeCommand, transitionNudges } from "./transition.ts"

/** In a callback's address: the provider serves every account. */
const EVERY_ACCOUNT = "all"

const present = (ids: ReadonlyArray<string | null>): ReadonlyArray<string> => ids.filter((id) => id !== null)

/** Receipts by nudge, in the order in which they came. */
const byNudge = (receipts: ReadonlyArray<Receipt>, rows: ReadonlyArray<NudgeRow>) => {
  const ids = new Map(rows.map((row) => [row.id, row]))
  const called = new Map(rows.map((row) => [row.message_id, row]))
  return Map.groupBy(receipts, ({ nudgeId, messageId }) =>
    nudgeId === null ? called.get(messageId) : ids.get(nudgeId),
  )
}

const eventOf = ({ channel, delivered, reason }: Receipt, at: number): NudgeCommand["event"] =>
  delivered
    ? { type: "receipt.delivered", at, channel }
    : { type: "receipt.failed", at, channel, reason: reason ?? "message_rejected" }

/** Applies what receipts say of these nudges, in the running transaction. */
const applyTo = Effect.fnUntraced(function* (refs: ReadonlyArray<Ref>, receipts: ReadonlyArray<Receipt>) {
  // All are locked at once, in the order in which everybody does.
  let rows = yield* nudges.lock(refs)
  const waiting = byNudge(receipts, rows)
  const lists = rows.map((row) => waiting.get(row) ?? [])
  // What is said of one nudge in one go comes one after the other; all nudges take each step together.
  for (let step = 0; lists.some((list) => list.length > step); step++) {
    const at = currentTime()
    const commands = rows.flatMap((row, index): ReadonlyArray<NudgeCommand> => {
      const receipt = lists[index]![step]
      return receipt === undefined ? [] : [{ row, event: eventOf(receipt, at) }]
    })
    const moved = new Map((yield* transitionNudges(commands, sameForAll(at))).map((row) => [row.id, row]))
    rows = rows.map((row) => moved.get(row.id) ?? row)
  }
})

/**
 * Applies receipts, each once however often it comes; those of no nudge of the account change nothing. A message that is
 * known by the messenger's name only may have a receipt before its ID is written down: the messenger is to send that again.
 */
export const applyReceipts = Effect.fn("nudge.receipts")(function* (account: string, all: ReadonlyArray<Receipt>) {
  const receipts = all.filter(({ nudgeId, messageId }) => nudgeId !== null || messageId !== null)
  if (receipts.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const mine = account === EVERY_ACCOUNT ? sql`true` : sql`account_id = ${account}`
  const named = sql`id = ANY(${present(receipts.map(({ nudgeId }) => nudgeId))}::text[])`
  const called = sql`message_id = ANY(${present(receipts.map(({ messageId }) => messageId))}::text[])`
  // Two look-ups by index rather than one by none.
  const found = yield* sql<Ref & { readonly message_id: string | null }>`
      SELECT account_id, livemode, id, message_id FROM nudge WHERE livemode AND ${mine} AND ${named}
      UNION SELECT account_id, livemode, id, message_id FROM nudge WHERE livemode AND ${mine} AND ${called}`
  // An account at a time: what counts for it is locked for as long as the transaction lasts.
  for (const [, refs] of Map.groupBy(found, ({ account_id }) => account_id))
    yield* sql.withTransaction(applyTo(refs, receipts))
  const known = new Set(found.map(({ message_id }) => message_id))
  if (receipts.some(({ nudgeId, messageId }) => nudgeId === null && !known.has(messageId)))
    return yield* problem(
      "message_unknown",
      "No nudge of this message is known, or not yet: send the receipt again later.",
    )
})
