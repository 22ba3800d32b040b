/**
 * Lists an account's transactions at a rail, page by page (decision F9). If the list does not end, the rail is unreachable or it refuses the
 * account, the whole list fails: with a partial list, later attempts would be entered without the earlier ones.
 */
import { Data, Effect } from "effect"
import { isId } from "../../base/ids.ts"
import { SECOND_MS } from "../../base/time.ts"
import { describedBy, namesAccount } from "../../billing/payments/railMetadata.ts"
import type { Credentials, ListedTransaction, NoAnswer, Rail } from "../rail/Rail.ts"

/** Why a rail could not be asked for an account. */
export class NotListed extends Data.TaggedError("NotListed")<{ readonly message: string }> {}

/** 100,000 transactions of a rail that lists 50 on a page: an account has fewer between a backup and its restore. */
const MAX_PAGES = 2_000

const MAX_TRIES = 4
/** The wait between tries if the rail gives none. */
const AGAIN_AFTER_MS = SECOND_MS
/** The longest wait between tries: an operator waits for the result. */
const MAX_WAIT_MS = 30 * SECOND_MS

const waitAfter = (result: NoAnswer): number | undefined => {
  if (result.kind === "refused") return undefined
  const wait = result.kind === "rate_limited" ? (result.retryAfterMs ?? AGAIN_AFTER_MS) : AGAIN_AFTER_MS
  return Math.min(wait, MAX_WAIT_MS)
}

const wordsOf = (result: NoAnswer): string =>
  result.kind === "rate_limited" ? "it accepts no more calls for now" : (result.message ?? "it refuses the call")

type Answered<H> = Exclude<H, NoAnswer>

const isNoAnswer = (result: { readonly kind: string }): result is NoAnswer =>
  result.kind === "refused" || result.kind === "rate_limited" || result.kind === "not_sent" || result.kind === "unclear"

/** Repeats a read-only call until it is answered, a few times at most. */
export const untilAnswered = Effect.fnUntraced(function* <H extends { readonly kind: string }>(
  name: string,
  call: Effect.Effect<H>,
) {
  for (let left = MAX_TRIES; ; ) {
    const result = yield* call
    if (!isNoAnswer(result)) return result as Answered<H>
    const wait = waitAfter(result)
    if (wait === undefined || --left === 0) return yield* new NotListed({ message: `${name}: ${wordsOf(result)}` })
    yield* Effect.sleep(wait)
  }
})

/** Whether a transaction may be one of our charges, by its reference or its metadata. */
const isOurs = ({ reference, metadata }: ListedTransaction): boolean =>
  isId("charge", reference) || isId("verification", reference) || namesAccount(metadata)

export interface Listed extends ListedTransaction {
  readonly described: ReturnType<typeof describedBy>
}

/** Returns the transactions of an account that may be our charges, by reference. */
export const listOurs = Effect.fnUntraced(function* (
  rail: Rail,
  credentials: Credentials,
  since: number,
  until: number,
) {
  const seen = new Set<string>()
  const ours = new Map<string, Listed>()
  for (let page = 1; ; page++) {
    if (page > MAX_PAGES)
      return yield* new NotListed({
        message: `it lists more than ${MAX_PAGES} pages of transactions; give a later --since`,
      })
    const { transactions, pages } = yield* untilAnswered(
      "its transactions cannot be listed",
      rail.list({ since, until, page }, credentials),
    )
    const seenBefore = seen.size
    for (const one of transactions) {
      seen.add(one.reference)
      if (isOurs(one) && !ours.has(one.reference))
        ours.set(one.reference, { ...one, described: describedBy(one.metadata) })
    }
    // Past the last page some rails list nothing, others the last one again.
    if (seen.size === seenBefore || (pages !== null && page >= pages)) return ours
  }
})
