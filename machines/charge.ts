/**
 * A charge is one attempt at a rail (decisions F1, F2): pending until the rail's result is known, then succeeded or failed, once.
 * If a rail does not answer, it is asked about the reference repeatedly; no second attempt is sent. The same attempt is sent again, once, if
 * the process that sent it died and the rail does not know it (decision P9): a rail refuses a reference that it already has.
 */
import { assign, setup } from "xstate"
import type { DelayEvent } from "./decide.ts"
import { HOUR_MS, MINUTE_MS, SECOND_MS } from "./time.ts"

export const CHARGE_STATUSES = ["pending", "succeeded", "failed"] as const

/** The rail's own page, on which the buyer pays (decision P6). */
export interface RailPage {
  readonly openedAt: number
  /** The buyer has returned from it. */
  readonly returned: boolean
  /** The last return; absent in old journals, where a page without a payment was given up immediately. */
  readonly returnedAt?: number
}

export interface ChargeContext {
  /** When the attempt was sent, or when a long call ended without an answer: the times of questions count from it. */
  readonly sentAt: number
  readonly asks: number
  /** How often the rail answered that it does not know the reference. */
  readonly notFound: number
  /** When the rail promised a result; null: the usual question times. */
  readonly knownAt: number | null
  /** Why the rail did not accept the attempt (too many requests, for example): the failure code if the rail does not know it. */
  readonly refusedFor: string | null
  /** null: no page of the rail is used. */
  readonly page: RailPage | null
  /**
   * Whether it is sent again if the rail does not know it (decision P9). `possible`: its process died during the call; `made`: it was sent
   * again; null: its call ended, so that the rail's answers count.
   */
  readonly resend: "possible" | "made" | null
}

export type ChargeAnswer =
  | { readonly type: "rail.succeeded"; readonly at: number }
  | { readonly type: "rail.failed"; readonly at: number; readonly code: string; readonly message: string | null }
  /**
   * The rail is still working on it, or did not answer. `endedAt`: when a long call ended without an answer. `ongoing`: the buyer still has
   * to act on the rail's page. `lost`: the process that called died before it wrote the answer.
   */
  | {
      readonly type: "rail.unsettled"
      readonly at: number
      readonly knownAt: number | null
      readonly endedAt?: number
      readonly refusedFor?: string
      readonly ongoing?: true
      readonly lost?: true
    }
  /** `unwanted`: its purpose is over, so that it is not sent again. */
  | { readonly type: "rail.not_found"; readonly at: number; readonly unwanted?: true }
  /** Its page is open for the buyer. */
  | { readonly type: "rail.page"; readonly at: number }
  /** The buyer has not paid on the page, which may still be open. */
  | { readonly type: "rail.abandoned"; readonly at: number }

export type ChargeEvent =
  | ChargeAnswer
  | DelayEvent<"ask", "charge.pending.waiting">
  /** Ask the rail now: a callback arrived, or a person requested it. */
  | { readonly type: "rail.ask"; readonly at: number }
  /** The buyer has returned from the rail's page. */
  | { readonly type: "rail.return"; readonly at: number; readonly returnedAt?: number }

/** Ask after these times, then hourly: most answers come immediately, a bank's within the hour. */
const ASK_AFTER_MS: ReadonlyArray<number> = [10 * SECOND_MS, MINUTE_MS, 5 * MINUTE_MS]
/** If the rail has not known the reference this often, this long after sending, it was never charged: it is given up, or sent again. */
const MAX_NOT_FOUND_ASKS = 3
export const NOT_FOUND_AFTER_MS = 10 * MINUTE_MS
/**
 * How often in total a succeeded charge is asked about again after reports that it failed: more than hourly for a week. Further reports
 * cause no more questions.
 */
export const MAX_ASKS_ABOUT_PAID = 200
/** A page without a payment is given up after so long; the rail is asked at that time, too. */
export const PAGE_LIFETIME_MS = 30 * MINUTE_MS
const ASK_ABOUT_PAGE_AFTER_MS: ReadonlyArray<number> = [...ASK_AFTER_MS, PAGE_LIFETIME_MS]

/**
 * When to ask next: by the number of earlier questions, counted from sending, but at least hourly after extra questions, and never at
 * an instant in the past.
 */
export const nextAskAt = ({ sentAt, asks, knownAt, page }: ChargeContext, now: number): number => {
  if (knownAt !== null) return knownAt
  const times = page === null ? ASK_AFTER_MS : ASK_ABOUT_PAGE_AFTER_MS
  const after = (n: number): number => sentAt + (times[n] ?? (n - times.length + 1) * HOUR_MS)
  const usual = after(asks)
  const next =
    usual > now
      ? usual
      : (times.map((ms) => sentAt + ms).find((at) => at > now) ?? now + HOUR_MS - ((now - sentAt) % HOUR_MS))
  const soon = Math.min(next, now + HOUR_MS)
  if (page === null) return soon
  const { openedAt, returnedAt } = page
  const ends = [openedAt + PAGE_LIFETIME_MS, ...(returnedAt === undefined ? [] : [returnedAt + NOT_FOUND_AFTER_MS])]
  return Math.min(soon, ...ends.filter((at) => at > now))
}

const isOpen = ({ page }: ChargeContext, at: number): boolean => page !== null && at - page.openedAt < PAGE_LIFETIME_MS

/** Whether the rail has not known the reference so often and for so long that it was never charged. */
const isNeverCharged = ({ notFound }: ChargeContext, since: number, at: number): boolean =>
  notFound + 1 >= MAX_NOT_FOUND_ASKS && at - since >= NOT_FOUND_AFTER_MS

const fail = (code: string, message: string) =>
  ({
    target: "failed",
    actions: { type: "settled", params: { status: "failed", code, message } },
  }) as const

export const chargeMachine = setup({
  types: {} as {
    context: ChargeContext
    events: ChargeEvent
    input: { readonly at: number }
  },
  actions: {
    countAsk: assign({ asks: ({ context }) => context.asks + 1 }),
    comeBack: assign(({ context, event }) =>
      event.type === "rail.return" && event.returnedAt !== undefined
        ? { page: { ...context.page!, returned: true, returnedAt: event.returnedAt }, notFound: 0 }
        : { page: { ...context.page!, returned: true } },
    ),
    countNotFound: assign({ notFound: ({ context }) => context.notFound + 1, knownAt: null }),
    /** Ask the rail about the reference. */
    ask: () => {},
    /** Send the attempt again, under the same reference. */
    sendAgain: () => {},
    noteResend: assign({ resend: "made", asks: 0, notFound: 0, knownAt: null }),
    /** The rail has decided: the owner of the charge continues. */
    settled: (
      _,
      _params: {
        readonly status: "succeeded" | "failed"
        readonly code: string | null
        readonly message: string | null
      },
    ) => {},
    /** The rail contradicts its earlier result: record the answer, change nothing (decision F2). */
    contradicted: (
      _,
      _params: { readonly answer: "succeeded" | "failed"; readonly code: string | null; readonly at: number },
    ) => {},
  },
  delays: { ask: ({ context, event }) => nextAskAt(context, event.at) - event.at },
  guards: {
    mayAskAgain: ({ context }) => context.asks < MAX_ASKS_ABOUT_PAID,
    wasRefused: ({ context }) => context.refusedFor !== null,
    mayReturn: ({ context, event }) => isOpen(context, event.at) && !context.page!.returned,
    hasPage: ({ context }) => context.page !== null,
    hasNotReturned: ({ context }) => context.page !== null && !context.page.returned,
    // A rail may learn of a payment on its page shortly after the buyer has returned.
    mayBeKnownSoon: ({ context, event }) =>
      isOpen(context, event.at) &&
      context.page?.returnedAt !== undefined &&
      !isNeverCharged(context, context.page.returnedAt, event.at),
    neverCharged: ({ context, event }) => isNeverCharged(context, context.sentAt, event.at),
    wasLost: ({ context, event }) =>
      context.resend === "possible" &&
      !(event.type === "rail.not_found" && event.unwanted === true) &&
      isNeverCharged(context, context.sentAt, event.at),
    isSentAgain: ({ context }) => context.resend === "made",
  },
}).createMachine({
  id: "charge",
  context: ({ input }) => ({
    sentAt: input.at,
    asks: 0,
    notFound: 0,
    knownAt: null,
    refusedFor: null,
    page: null,
    resend: null,
  }),
  initial: "pending",
  states: {
    pending: {
      initial: "sending",
      on: {
        "rail.succeeded": {
          target: "succeeded",
          actions: { type: "settled", params: { status: "succeeded", code: null, message: null } },
        },
        "rail.failed": {
          target: "failed",
          actions: {
            type: "settled",
            params: ({ event }) => ({ status: "failed", code: event.code, message: event.message }),
          },
        },
        "rail.unsettled": {
          target: ".waiting",
          actions: assign(({ context, event }) => ({
            knownAt: event.knownAt,
            sentAt: event.endedAt ?? context.sentAt,
            refusedFor: event.refusedFor ?? context.refusedFor,
            // The buyer continues on the rail's page after a return (decision P6).
            page: event.ongoing === true && context.page !== null ? { ...context.page, returned: false } : context.page,
            resend: event.lost === true ? (context.resend ?? "possible") : context.resend,
          })),
        },
        "rail.page": {
          target: ".waiting",
          actions: assign(({ event }) => ({ sentAt: event.at, page: { openedAt: event.at, returned: false } })),
        },
        "rail.abandoned": [
          { guard: "mayReturn", target: ".waiting" },
          fail("customer_abandoned", "The buyer has not paid."),
        ],
        "rail.not_found": [
          {
            guard: "wasRefused",
            target: "failed",
            actions: {
              type: "settled",
              params: ({ context }) => ({
                status: "failed",
                code: context.refusedFor,
                message: "The rail did not take the attempt.",
              }),
            },
          },
          { guard: "mayReturn", target: ".waiting" },
          { guard: "mayBeKnownSoon", target: ".waiting", actions: "countNotFound" },
          { guard: "hasPage", ...fail("customer_abandoned", "The buyer has not paid.") },
          { guard: "wasLost", target: ".sending", actions: ["noteResend", "sendAgain"] },
          { guard: "neverCharged", ...fail("processor_error", "The rail knows no such reference.") },
          { target: ".waiting", actions: "countNotFound" },
        ],
      },
      states: {
        sending: {
          on: {
            // The answer to a question of another process: the call still has to be made.
            "rail.not_found": { guard: "isSentAgain", actions: "sendAgain" },
          },
        },
        waiting: {
          after: { ask: { target: "asking", actions: "countAsk" } },
          on: {
            "rail.ask": { target: "asking", actions: "countAsk" },
            "rail.return": { guard: "hasPage", target: "asking", actions: ["countAsk", "comeBack"] },
          },
        },
        asking: {
          entry: "ask",
          on: { "rail.return": { guard: "hasNotReturned", actions: "comeBack" } },
        },
      },
    },
    succeeded: {
      on: {
        "rail.ask": { guard: "mayAskAgain", actions: ["countAsk", "ask"] },
        "rail.failed": {
          target: "contradicted",
          actions: {
            type: "contradicted",
            params: ({ event }) => ({ answer: "failed" as const, code: event.code, at: event.at }),
          },
        },
      },
    },
    failed: {
      on: {
        "rail.succeeded": {
          target: "contradicted",
          actions: {
            type: "contradicted",
            params: ({ event }) => ({ answer: "succeeded" as const, code: null, at: event.at }),
          },
        },
      },
    },
    /** Keeps its first result; a person has to check it (the reconciliation exceptions of the books). */
    contradicted: {},
  },
})
