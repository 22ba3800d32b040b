/** Makes calls to rails and interprets their answers, the same for all rails (decision P9). */
import { Effect, Redacted } from "effect"
import { lineOf, MAX_MESSAGE } from "./fields.ts"
import { type Call, type RailClient, UNAUTHORIZED, unclear } from "./http.ts"
import type { FailureCode } from "./PaymentRail.ts"
import type { NoAnswer, RailRefund, UnknownReference } from "./Rail.ts"

/** An answer by which the rail refuses the call. */
export interface Refusal {
  /** `duplicate`: the same call was made before; `unknown`: the rail has no such object. */
  readonly kind: "refused" | "duplicate" | "unknown"
  readonly code: FailureCode
  readonly message: string | null
}

/** Removes our secrets from the message of a result, because a rail may repeat them, and shortens it. */
const withoutSecrets = <H extends object>(result: H, secrets: ReadonlyArray<Redacted.Redacted<string>>): H => {
  if (!("message" in result) || typeof result.message !== "string") return result
  const message = secrets.reduce((words, secret) => words.replaceAll(Redacted.value(secret), "…"), result.message)
  return { ...result, message: lineOf(message, MAX_MESSAGE) ?? "" }
}

/** The result of an unreadable answer. With status 401 the account may not call the rail. */
const unreadable = (status: number): NoAnswer =>
  status === UNAUTHORIZED
    ? { kind: "refused", code: "rail_misconfigured", message: null }
    : unclear(`an answer that cannot be read (HTTP ${status})`, true)

/**
 * Makes a call. Reads an answer of status 2xx by `accepted` and one of 4xx by `declined`; an unreadable answer is `unclear`.
 * `token`: a second secret, besides the account's own, that the answer may repeat.
 */
export const callRail = <A extends object, D extends object>(
  client: RailClient,
  { token, ...call }: Call & { readonly token?: Redacted.Redacted<string> },
  accepted: (body: unknown) => A | undefined,
  declined: (status: number, body: unknown) => D | undefined,
): Effect.Effect<A | D | NoAnswer> =>
  Effect.map(client.call(call), (answer) => {
    if (answer.kind !== "answer") return answer
    const { status, body } = answer
    const read = status < 300 ? accepted(body) : declined(status, body)
    return withoutSecrets<A | D | NoAnswer>(
      read ?? unreadable(status),
      [call.secret, token].filter((secret) => secret !== undefined),
    )
  })

/** The result of a refused call that moves money: nothing was done, unless the same call was made before. */
const refusalOfCall = (refusal: Refusal | undefined): NoAnswer | undefined => {
  if (refusal === undefined) return undefined
  const { kind, code, message } = refusal
  return kind === "duplicate" ? unclear(message ?? "asked for before", true) : { kind: "refused", code, message }
}

/**
 * The result of a refused refund. A duplicate was sent back by an earlier request of ours whose answer was lost: a refund is of
 * a whole charge, and no rail sends that back twice.
 */
const refusalOfRefund = (refusal: Refusal | undefined): RailRefund | NoAnswer | undefined =>
  refusal?.kind === "duplicate"
    ? { kind: "refund", status: "returned", refundId: null, message: refusal.message }
    : refusalOfCall(refusal)

/** The result of a refused query: the object is unknown, or the account is misconfigured. Another refusal is `unclear`. */
const refusalOfAsk = (refusal: Refusal | undefined): UnknownReference | NoAnswer | undefined => {
  if (refusal === undefined) return undefined
  const { kind, code, message } = refusal
  if (kind === "unknown") return { kind: "unknown_reference" }
  return code === "rail_misconfigured" ? { kind: "refused", code, message } : unclear(message ?? "refused", true)
}

type RefusalIn = (status: number, body: unknown) => Refusal | undefined

/** Returns the readers of a rail's errors for each kind of call. `refusalIn` parses the error. */
export const refusalReaders = (refusalIn: RefusalIn) => ({
  declined: (status: number, body: unknown) => refusalOfCall(refusalIn(status, body)),
  notSentBack: (status: number, body: unknown) => refusalOfRefund(refusalIn(status, body)),
  unanswered: (status: number, body: unknown) => refusalOfAsk(refusalIn(status, body)),
})

const NO_ROUTE = /\b(?:route|endpoint|url)\b/i

/** Whether a 404 means that the object is unknown. It does not if the message is about a wrong URL. */
export const isNotFound = (status: number, words: string): boolean => status === 404 && !NO_ROUTE.test(words)
