/**
 * The port to messengers. A messenger gets the message of a committed nudge and answers: accepted, or one of three errors,
 * which differ in whether a retry is allowed.
 */
import { Context, Data, type Effect } from "effect"
import type { Channel, NudgeFailure } from "../../../machines/nudge.ts"

export interface Message {
  /** The nudge's ID. Messengers that support idempotency use it to send the message once. */
  readonly id: string
  readonly account_id: string
  readonly livemode: boolean
  readonly channel: Channel
  /** A phone number in E.164, or an e-mail address. */
  readonly to: string
  /** The sender's name, as the customer sees it. */
  readonly sender: string
  readonly subject: string
  /** The text without the link. */
  readonly text: string
  readonly link: string
  /** For messengers that accept approved templates only: the template's name and its values, the link last. */
  readonly template: { readonly name: string; readonly values: ReadonlyArray<string> }
  /** Now, in the customer's clock (ms since the epoch). */
  readonly at: number
}

export interface Accepted {
  /** The messenger's ID of the message, used in its receipts. */
  readonly messageId: string | null
  /** When it will arrive, if the messenger knows this in advance (simulated ones do). */
  readonly receiptAt: number | null
}

/** The messenger refuses this message for good. `reason` becomes the nudge's `failure_reason`. */
export class Refused extends Data.TaggedError("Refused")<{ readonly reason: NudgeFailure }> {}
/** The messenger certainly did not accept the message now: a retry is safe. */
export class Busy extends Data.TaggedError("Busy")<{ readonly retryAfterMs: number | null }> {}
/** The messenger may have accepted the message: a retry could send it twice. */
export class NoAnswer extends Data.TaggedError("NoAnswer")<{ readonly cause: unknown }> {}

export type SendError = Refused | Busy | NoAnswer

/** One channel's messenger. */
export interface ChannelMessenger {
  readonly send: (message: Message) => Effect.Effect<Accepted, SendError>
  /** Whether sending the same message again is harmless: a process that died may have sent it. */
  readonly repeatable: boolean
  /** How many messages may be in flight to it. */
  readonly atOnce: number
}

export class Messenger extends Context.Service<
  Messenger,
  {
    /** Returns the messenger of a channel in an environment. */
    readonly of: (livemode: boolean, channel: Channel) => ChannelMessenger
  }
>()("billing/outbound/messenger/Messenger") {}

/** Returns the full text for the customer, for messengers that are not bound to templates. */
export const wholeText = ({ text, link }: Pick<Message, "text" | "link">): string => `${text} ${link}`

/** Replaces `₦` for SMS. It is outside the SMS alphabet and would halve the length of a message. */
export const forSms = (text: string): string => text.replaceAll("₦", "NGN ")
