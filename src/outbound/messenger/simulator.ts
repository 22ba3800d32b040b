/** Simulated messengers. The result depends on the contact details only: no randomness, no wall clock (docs/sandbox.md). */
import { Effect } from "effect"
import type { Channel, NudgeFailure } from "../../../machines/nudge.ts"
import { SECOND_MS } from "../../base/time.ts"
import { type ChannelMessenger, type Message, Refused } from "./Messenger.ts"

const DELIVERED_AFTER_MS = SECOND_MS

/** Returns why a message is refused: by the last digits of the phone number, or by the e-mail name before the @. */
const refusal = ({ channel, to }: Pick<Message, "channel" | "to">): NudgeFailure | undefined => {
  if (channel === "email") return /^bounce@/i.test(to) ? "address_rejected" : undefined
  if (to.endsWith("0001") && channel === "whatsapp") return "not_on_whatsapp"
  return to.endsWith("0002") ? "number_unreachable" : undefined
}

const neverReceived = (channel: Channel, to: string): boolean => channel !== "email" && to.endsWith("0003")

export const simulated: ChannelMessenger = {
  // Nothing leaves the service: the nudge's row is the message.
  repeatable: true,
  atOnce: 200,
  send: ({ channel, to, at }) => {
    const reason = refusal({ channel, to })
    if (reason !== undefined) return Effect.fail(new Refused({ reason }))
    return Effect.succeed({ messageId: null, receiptAt: neverReceived(channel, to) ? null : at + DELIVERED_AFTER_MS })
  },
}
