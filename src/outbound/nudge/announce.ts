/** Builds the events of nudges (decision I6). Pure. */
import { allParamsOf } from "../../../machines/decide.ts"
import type { Json } from "../../base/json.ts"
import { type NewEvent, previousAttributes } from "../event/events.ts"
import { type NudgeRow, type NudgeTransition, renderNudge } from "./nudge.ts"

/** Renders a nudge as it was before its first event. */
const renderNew = (row: NudgeRow): Json => ({
  ...renderNudge(row),
  channel: row.channels[0] ?? row.channel,
  status: "queued",
  failure_reason: null,
  counts_toward_allowance: false,
  billed_as_overage: false,
  sent_at: null,
  delivered_at: null,
  attempts: [],
})

/** Returns the events of a transition, with the changes since the last event; and the row that stores the announced state. */
export const announce = ({ row: before, decision, from }: NudgeTransition, row: NudgeRow, now: number) => {
  const types = allParamsOf(decision, "emit").map(({ type }) => type)
  if (types.length === 0) return { row, events: [] }
  const object = renderNudge(row)
  const previous = from === "created" ? {} : previousAttributes(before.announced ?? renderNew(before), object)
  const events = types.map(
    (type): NewEvent => ({
      account_id: row.account_id,
      livemode: row.livemode,
      type,
      object,
      previous,
      test_clock_id: row.test_clock_id,
      at: now,
    }),
  )
  return { row: { ...row, announced: object }, events }
}
