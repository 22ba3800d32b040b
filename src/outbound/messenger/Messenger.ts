/**
 * The port to messengers. A messenger is given a message whose nudge is committed, and says what became of it: taken, or
 * one of three ways in which it was not, which differ in what may be done next.
 */
import { Context, Data, type Effect } from "effect"
import type { Channel, NudgeFailure } from "../../../machines/nudge.ts"

export interface Message {
  /** The nudge's ID, unique for ever: messengers that know such things send it once. */
  readonly id: string
  readonly account_id: string
  readonly livemode: boolean
  readonly channel: Channel
  /** A phone number in E.164, or an e-mail address. */
  readonly to: string
  /** Who it is from, for the customer's eyes. */
  readonly sender: string
  readonly subject: string
  /** The words without the link. */
  readonly text: string
  readonly link: string
  /** The words as messengers know them that take approved templates only: a name and its values, the link last. */
  readonly template: { readonly name: string; readonly values: ReadonlyArray<string> }
  /** Now, in the customer's clock (ms since the epoch). */
  readonly at: number
}

export interface Accepted {
  /** What its receipts will call it. */
  readonly messageId: string | null
  /** When it will have arrived, where the messenger knows that beforehand (simulated ones do). */
  readonly receiptAt: number | null
}

/** It will not take this message; `reason` is a word for the nudge's `failure_reason`. */
export class Refused extends Data.TaggedError("Refused")<{ readonly reason: NudgeFailure }> {}
/** It did not take it now, for certain: it may be asked again. */
export class Busy extends Data.TaggedError("Busy")<{ readonly retryAfterMs: number | null }> {}
/** It may have taken it; asking again could send it twice. */
export class NoAnswer extends Data.TaggedError("NoAnswer")<{ readonly cause: unknown }> {}

export type SendError = Refused | Busy | NoAnswer

/** One channel's messenger. */
export interface ChannelMessenger {
  readonly send: (message: Message) => Effect.Effect<Accepted, SendError>
  /** Whether sending the same message again is harmless: a process that died may have sent it. */
  readonly repeatable: boolean
  /** How many messages it is given at once. */
  readonly atOnce: number
}

export class Messenger extends Context.Service<
  Messenger,
  {
    /** Who sends for a channel of an environment. */
    readonly of: (livemode: boolean, channel: Channel) => ChannelMessenger
  }
>()("billing/messenger/Messenger") {}

/** What a customer reads: a messenger that is not bound to templates sends this. */
export const wholeText = ({ text, link }: Pick<Message, "text" | "link">): string => `${text} ${link}`

/** `₦` is outside the alphabet of SMS and would halve what one holds. */
export const forSms = (text: string): string => text.replaceAll("₦", "NGN ")
