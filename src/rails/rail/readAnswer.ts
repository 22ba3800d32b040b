/** What an answer of a rail means for whoever called it, the same for all rails (decision P9). */
import { Effect, Redacted } from "effect"
import { lineOf, MAX_MESSAGE } from "./fields.ts"
import { type Call, type RailClient, UNAUTHORIZED, unclear } from "./http.ts"
import type { FailureCode } from "./PaymentRail.ts"
import type { NoAnswer, RailRefund, UnknownReference } from "./Rail.ts"

/** An answer by which the rail does not do what it was asked to. */
export interface Refusal {
  /** `duplicate`: the same was asked for before; `unknown`: nothing is known by it. */
  readonly kind: "refused" | "duplicate" | "unknown"
  readonly code: FailureCode
  readonly message: string | null
}

/** What was heard, its words without secrets of ours that the rail repeats, and cut. */
const withoutSecrets = <H extends object>(heard: H, secrets: ReadonlyArray<Redacted.Redacted<string>>): H => {
  if (!("message" in heard) || typeof heard.message !== "string") return heard
  const message = secrets.reduce((words, secret) => words.replaceAll(Redacted.value(secret), "…"), heard.message)
  return { ...heard, message: lineOf(message, MAX_MESSAGE) ?? "" }
}

/** What an answer says that nobody can read: that the account may not call, or nothing. */
const unread = (status: number): NoAnswer =>
  status === UNAUTHORIZED
    ? { kind: "refused", code: "rail_misconfigured", message: null }
    : unclear(`an answer that cannot be read (HTTP ${status})`, true)

/**
 * Makes a call, and reads an answer of status 2xx by `taken` and one of 4xx by `declined`; what neither can read is unclear.
 * `token`: a secret beside the account's own that the answer may repeat.
 */
export const callRail = <A extends object, D extends object>(
  client: RailClient,
  { token, ...call }: Call & { readonly token?: Redacted.Redacted<string> },
  taken: (body: unknown) => A | undefined,
  declined: (status: number, body: unknown) => D | undefined,
): Effect.Effect<A | D | NoAnswer> =>
  Effect.map(client.call(call), (heard) => {
    if (heard.kind !== "answer") return heard
    const { status, body } = heard
    const read = status < 300 ? taken(body) : declined(status, body)
    return withoutSecrets<A | D | NoAnswer>(
      read ?? unread(status),
      [call.secret, token].filter((secret) => secret !== undefined),
    )
  })

/** Of a call that does something: it is not done, unless by the same call before. */
const refusalOfCall = (refusal: Refusal | undefined): NoAnswer | undefined => {
  if (refusal === undefined) return undefined
  const { kind, code, message } = refusal
  return kind === "duplicate" ? unclear(message ?? "asked for before", true) : { kind: "refused", code, message }
}

/**
 * Of a refund. What was sent back before was sent back by a request of ours that nobody heard the answer to: a refund is of a
 * whole charge, and no rail sends that back twice.
 */
const refusalOfRefund = (refusal: Refusal | undefined): RailRefund | NoAnswer | undefined =>
  refusal?.kind === "duplicate"
    ? { kind: "refund", status: "returned", refundId: null, message: refusal.message }
    : refusalOfCall(refusal)

/** Of a question: what is asked about is unknown, or the account is wrong; anything else says nothing about it. */
const refusalOfAsk = (refusal: Refusal | undefined): UnknownReference | NoAnswer | undefined => {
  if (refusal === undefined) return undefined
  const { kind, code, message } = refusal
  if (kind === "unknown") return { kind: "unknown_reference" }
  return code === "rail_misconfigured" ? { kind: "refused", code, message } : unclear(message ?? "refused", true)
}

type RefusalIn = (status: number, body: unknown) => Refusal | undefined

/** What the errors of a rail mean, as `refusalIn` reads them, of each kind of call. */
export const refusalsBy = (refusalIn: RefusalIn) => ({
  declined: (status: number, body: unknown) => refusalOfCall(refusalIn(status, body)),
  notSentBack: (status: number, body: unknown) => refusalOfRefund(refusalIn(status, body)),
  unanswered: (status: number, body: unknown) => refusalOfAsk(refusalIn(status, body)),
})

const NO_ROUTE = /\b(?:route|endpoint|url)\b/i

/** Whether the status says that nothing is known by what was asked for, and the words not that the address is wrong. */
export const isNotFound = (status: number, words: string): boolean => status === 404 && !NO_ROUTE.test(words)
