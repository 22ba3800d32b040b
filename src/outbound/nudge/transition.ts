/** Applies events to locked nudges, in the running transaction. */
import { Effect } from "effect"
import type { nudgeMachine } from "../../../machines/nudge.ts"
import type { NowOf } from "../../base/time.ts"
import { commit } from "../../runtime/commit.ts"
import { advance, type Command, rowAfter } from "../../runtime/lifecycle.ts"
import { transitioned } from "../../runtime/outcome.ts"
import { announce } from "./announce.ts"
import { countNudges } from "./count.ts"
import { type NudgeRow, nudgeLifecycle } from "./nudge.ts"

export type NudgeCommand = Command<typeof nudgeMachine, NudgeRow>

/**
 * Applies events to nudges and releases them from their process. `messageIds` are the messengers' IDs of accepted
 * messages, by nudge ID. Returns the new rows of the nudges that changed.
 */
export const transitionNudges = Effect.fnUntraced(function* (
  commands: ReadonlyArray<NudgeCommand>,
  nowOf: NowOf,
  messageIds: ReadonlyMap<string, string | null> = new Map(),
) {
  const transitions = advance(nudgeLifecycle, commands)
  if (transitions.length === 0) return []
  const beyond = yield* countNudges(transitions)
  const announced = transitions.map((transition) => {
    const { row: before, decision } = transition
    const { channels, position } = decision.snapshot.context
    return announce(
      transition,
      {
        ...rowAfter(nudgeLifecycle, transition),
        channel: channels[position] ?? before.channel,
        runner: null,
        message_id: messageIds.get(before.id) ?? before.message_id,
        billed_as_overage: before.billed_as_overage || beyond.has(before.id),
      },
      nowOf(before),
    )
  })
  yield* commit(
    transitions.map((transition, index) => {
      const { row, events } = announced[index]!
      return transitioned(nudgeLifecycle, transition, row, { events })
    }),
  )
  return announced.map(({ row }) => row)
})
