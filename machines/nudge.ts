/**
 * A nudge is a reminder to a customer (decisions H1, H2, H8). It tries the channels in order of preference until one accepts it and
 * reports its arrival, or its arrival can be assumed.
 */
import { and, assign, setup } from "xstate"
import type { DelayEvent } from "./decide.ts"
import { MINUTE_MS, SECOND_MS } from "./time.ts"

export const CHANNELS = ["whatsapp", "sms", "email"] as const
export type Channel = (typeof CHANNELS)[number]

export const NUDGE_TEMPLATES = [
  "payment_due",
  "payment_failed",
  "update_payment_method",
  "service_paused",
  "custom",
] as const
export type NudgeTemplate = (typeof NUDGE_TEMPLATES)[number]

export const NUDGE_STATUSES = ["queued", "sent", "delivered", "failed"] as const
export type NudgeStatus = (typeof NUDGE_STATUSES)[number]

export const ATTEMPT_STATUSES = ["sent", "delivered", "failed"] as const

export interface NudgeAttempt {
  readonly channel: Channel
  readonly status: (typeof ATTEMPT_STATUSES)[number]
  readonly failure_reason: NudgeFailure | null
  readonly at: number
}

export interface NudgeContext {
  /** The channels that reach the customer, in order of preference. */
  readonly channels: ReadonlyArray<Channel>
  /** The index of the current or last channel. */
  readonly position: number
  /** How often a busy messenger was tried. */
  readonly tries: number
  readonly attempts: ReadonlyArray<NudgeAttempt>
  /** The earliest time to send; null: immediately. */
  readonly sendAt: number | null
  readonly sentAt: number | null
  readonly deliveredAt: number | null
  /** When a simulated receipt arrives. */
  readonly receiptAt: number | null
  readonly failureReason: NudgeFailure | null
  /** Whether it counts towards the allowance. */
  readonly counts: boolean
}

type Timed<T extends string> = { readonly type: T; readonly at: number }

export type MessengerAnswer =
  | (Timed<"messenger.accepted"> & { readonly receiptAt: number | null })
  /** It refuses this message. */
  | (Timed<"messenger.refused"> & { readonly reason: NudgeFailure })
  /** It certainly did not accept it now. */
  | (Timed<"messenger.busy"> & { readonly retryAfterMs: number | null })
  /** It may have accepted it: this is unknown, and the nudge is not sent there again. */
  | Timed<"messenger.unknown">

export type NudgeEvent =
  | (Timed<"create"> & { readonly channels: ReadonlyArray<Channel>; readonly sendAt: number | null })
  | MessengerAnswer
  | (Timed<"receipt.delivered"> & { readonly channel: Channel })
  | (Timed<"receipt.failed"> & { readonly channel: Channel; readonly reason: NudgeFailure })
  /** Its subject is settled, or too old. */
  | Timed<"withdraw">
  /** It must not be sent before this time. */
  | (Timed<"postpone"> & { readonly sendAt: number })
  | DelayEvent<"sendLater", "nudge.waiting">
  | DelayEvent<"sendAgain", "nudge.resting">
  | DelayEvent<"receipt", "nudge.sent">
  | DelayEvent<"unheard", "nudge.sent">

/** Why a message did not reach the customer, or a channel refused it (decision H6). */
export const NUDGE_FAILURES = [
  "no_contact_details",
  "not_on_whatsapp",
  "number_unreachable",
  "address_rejected",
  "message_rejected",
  "no_answer",
  "messenger_unavailable",
  "messenger_misconfigured",
  "channel_not_set_up",
  "no_longer_needed",
] as const
export type NudgeFailure = (typeof NUDGE_FAILURES)[number]

/** The events that a nudge emits. */
export const NUDGE_EVENT_TYPES = ["nudge.sent", "nudge.delivered", "nudge.failed"] as const

export type NudgeEventType = (typeof NUDGE_EVENT_TYPES)[number]

/** The waits for a busy messenger; after them comes the next channel. */
export const NUDGE_DELAYS_MS = [30 * SECOND_MS, 2 * MINUTE_MS, 10 * MINUTE_MS] as const
const MAX_WAIT_MS = 10 * MINUTE_MS
/** A sent nudge without a receipt for so long counts as delivered (decision H8). */
export const UNHEARD_AFTER_MS = 24 * 60 * MINUTE_MS

const channelNow = ({ channels, position }: NudgeContext): Channel => channels[position]!

/** The attempts in order, with the new result of a channel. */
const withOutcome = (
  { attempts }: NudgeContext,
  channel: Channel,
  status: NudgeAttempt["status"],
  reason: NudgeFailure | null,
  event: NudgeEvent,
): ReadonlyArray<NudgeAttempt> => {
  const attempt: NudgeAttempt = { channel, status, failure_reason: reason, at: event.at }
  const others = attempts.filter((other) => other.channel !== channel)
  return others.length === attempts.length
    ? [...others, attempt]
    : attempts.map((other) => (other.channel === channel ? attempt : other))
}

const isLast = ({ channels, position }: NudgeContext): boolean => position + 1 >= channels.length

type Moment = { readonly context: NudgeContext; readonly event: NudgeEvent }

const failsHere = ({ context, event }: Moment): boolean =>
  event.type === "receipt.failed" && event.channel === channelNow(context) && !context.counts

const emit = (type: NudgeEventType) => ({ type: "emit", params: { type } }) as const

/** A channel tried before has delivered it, possibly late. */
const wasTried = ({ context: { channels, position }, event }: Moment): boolean =>
  event.type === "receipt.delivered" && channels.slice(0, position + 1).includes(event.channel)

/** The current channel failed. */
const nextOrFailed = [
  { guard: "hasNext", target: "sending", actions: ["failChannel", "toNextChannel"] },
  { target: "failed", actions: "failChannel" },
] as const
/** It arrived. A nudge counts only once, and one that arrives immediately was also sent. */
const delivered = [
  { guard: "wasTriedAndCounted", target: "delivered", actions: "arrive" },
  { guard: "wasTriedAndAnnounced", target: "delivered", actions: ["arrive", "countIt", "count"] },
  { guard: "wasTried", target: "delivered", actions: [emit("nudge.sent"), "arrive", "countIt", "count"] },
] as const
/** It was accepted and then failed: the report comes before the messenger's own answer, or after it. */
const failsLate = [
  { guard: "failsHereAndHasNext", target: "sending", actions: ["failChannel", "toNextChannel"] },
  { guard: "failsHere", target: "failed", actions: "failChannel" },
] as const

export const nudgeMachine = setup({
  types: {} as {
    context: NudgeContext
    events: NudgeEvent
    input: { readonly at: number; readonly channels: ReadonlyArray<Channel>; readonly sendAt: number | null }
  },
  actions: {
    // Effects: carried out by src/outbound/nudge.
    emit: (_, _params: { readonly type: NudgeEventType }) => {},
    /** It counts towards the allowance from now on. */
    count: () => {},
    // Context.
    countIt: assign({ counts: true }),
    accept: assign(({ context, event }) => ({
      attempts: withOutcome(context, channelNow(context), "sent", null, event),
      sentAt: context.sentAt ?? event.at,
      receiptAt: event.type === "messenger.accepted" ? event.receiptAt : null,
      tries: 0,
    })),
    failChannel: assign(({ context, event }) => {
      const [channel, reason] =
        event.type === "receipt.failed"
          ? [event.channel, event.reason]
          : [
              channelNow(context),
              event.type === "messenger.refused"
                ? event.reason
                : event.type === "messenger.unknown"
                  ? "no_answer"
                  : "messenger_unavailable",
            ]
      return {
        attempts: withOutcome(context, channel, "failed", reason, event),
        failureReason: reason,
        receiptAt: null,
        tries: 0,
      }
    }),
    toNextChannel: assign(({ context }) => ({ position: context.position + 1, failureReason: null })),
    rest: assign(({ context }) => ({ tries: context.tries + 1 })),
    arrive: assign(({ context, event }) => {
      const channel = event.type === "receipt.delivered" ? event.channel : channelNow(context)
      const attempts = withOutcome(context, channel, "delivered", null, event)
      return {
        // The last tried channel, not the next one.
        position: context.channels.indexOf(attempts.at(-1)!.channel),
        attempts,
        sentAt: context.sentAt ?? event.at,
        deliveredAt: event.at,
        failureReason: null,
      }
    }),
    reachNobody: assign({ failureReason: "no_contact_details" }),
    postpone: assign(({ context, event }) => ({
      sendAt: event.type === "postpone" ? event.sendAt : context.sendAt,
      tries: 0,
    })),
    giveUp: assign({ failureReason: "no_longer_needed" }),
  },
  delays: {
    sendLater: ({ context, event }) => context.sendAt! - event.at,
    sendAgain: ({ context, event }) => {
      const asked = event.type === "messenger.busy" ? (event.retryAfterMs ?? 0) : 0
      return Math.max(NUDGE_DELAYS_MS[context.tries - 1]!, Math.min(asked, MAX_WAIT_MS))
    },
    receipt: ({ context, event }) => (context.receiptAt ?? Number.POSITIVE_INFINITY) - event.at,
    unheard: UNHEARD_AFTER_MS,
  },
  guards: {
    reachesNobody: ({ context }) => context.channels.length === 0,
    waits: ({ context, event }) => context.sendAt !== null && context.sendAt > event.at,
    neverSent: ({ context }) => context.sentAt === null,
    hasNext: ({ context }) => !isLast(context),
    mayTryAgain: ({ context }) => context.tries < NUDGE_DELAYS_MS.length,
    /** Reports about earlier channels change nothing, nor do reports after a day. */
    failsHere,
    failsHereAndHasNext: and([failsHere, ({ context }) => !isLast(context)]),
    wasTried,
    wasTriedAndCounted: and([wasTried, ({ context }) => context.counts]),
    wasTriedAndAnnounced: and([wasTried, ({ context }) => context.sentAt !== null]),
  },
}).createMachine({
  id: "nudge",
  context: ({ input }) => ({
    channels: input.channels,
    position: 0,
    tries: 0,
    attempts: [],
    sendAt: input.sendAt,
    sentAt: null,
    deliveredAt: null,
    receiptAt: null,
    failureReason: null,
    counts: false,
  }),
  initial: "created",
  states: {
    created: {
      on: {
        create: [
          { guard: "reachesNobody", target: "failed", actions: "reachNobody" },
          { guard: "waits", target: "waiting" },
          { target: "sending" },
        ],
      },
    },
    /** Waits for the end of the quiet hours. */
    waiting: {
      after: { sendLater: "sending" },
      // A receipt may still come from a channel that was tried before.
      on: {
        withdraw: { target: "failed", actions: "giveUp" },
        "receipt.delivered": [...delivered],
        "receipt.failed": [...failsLate],
      },
    },
    /** It is sent to a messenger now or next. */
    sending: {
      on: {
        "messenger.accepted": [
          { guard: "neverSent", target: "sent", actions: ["accept", emit("nudge.sent")] },
          { target: "sent", actions: "accept" },
        ],
        "messenger.refused": [...nextOrFailed],
        "messenger.unknown": [...nextOrFailed],
        "messenger.busy": [{ guard: "mayTryAgain", target: "resting", actions: "rest" }, ...nextOrFailed],
        "receipt.delivered": [...delivered],
        "receipt.failed": [...failsLate],
        // Its turn came too late, or during quiet hours.
        withdraw: { target: "failed", actions: "giveUp" },
        postpone: { target: "waiting", actions: "postpone" },
      },
    },
    resting: {
      after: { sendAgain: "sending" },
      on: { "receipt.delivered": [...delivered], "receipt.failed": [...failsLate] },
    },
    sent: {
      after: {
        receipt: { target: "delivered", actions: ["arrive", "countIt", "count"] },
        unheard: { actions: ["countIt", "count"] },
      },
      on: {
        "receipt.delivered": [...delivered],
        "receipt.failed": [...failsLate],
      },
    },
    delivered: { entry: emit("nudge.delivered") },
    /** A channel that never answered may still have delivered it. */
    failed: { entry: emit("nudge.failed"), on: { "receipt.delivered": [...delivered] } },
  },
})

/** The API's status of a nudge: it stays `sent` while the next channel is tried. */
export const nudgeStatusOf = (state: string, { sentAt }: NudgeContext): NudgeStatus => {
  if (state === "delivered" || state === "failed") return state
  return sentAt === null ? "queued" : "sent"
}
