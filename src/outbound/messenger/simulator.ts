/** Simulated messengers: by contact details alone, no randomness, no wall clock (docs/sandbox.md). */
import { Effect } from "effect"
import type { Channel, NudgeFailure } from "../../../machines/nudge.ts"
import { SECOND_MS } from "../../base/time.ts"
import { type ChannelMessenger, type Message, Refused } from "./Messenger.ts"

const DELIVERED_AFTER_MS = SECOND_MS

/** Why a message is not taken, by how its phone number ends; e-mail by the name before the @. */
const refusal = ({ channel, to }: Pick<Message, "channel" | "to">): NudgeFailure | undefined => {
  if (channel === "email") return /^bounce@/i.test(to) ? "address_rejected" : undefined
  if (to.endsWith("0001") && channel === "whatsapp") return "not_on_whatsapp"
  return to.endsWith("0002") ? "number_unreachable" : undefined
}

const neverReceived = (channel: Channel, to: string): boolean => channel !== "email" && to.endsWith("0003")

export const simulated: ChannelMessenger = {
  // What it sent is the nudge's own row.
  repeatable: true,
  atOnce: 200,
  send: ({ channel, to, at }) => {
    const reason = refusal({ channel, to })
    if (reason !== undefined) return Effect.fail(new Refused({ reason }))
    return Effect.succeed({ messageId: null, receiptAt: neverReceived(channel, to) ? null : at + DELIVERED_AFTER_MS })
  },
}
