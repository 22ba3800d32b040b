/**
 * What a rail lists of an account's transactions, page by page (decision F9). A rail that lists without end, cannot be reached or refuses the
 * account fails as a whole: of a part, later attempts would be entered without the earlier ones that they follow.
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
/** Between tries where the rail does not say how long. */
const AGAIN_AFTER_MS = SECOND_MS
/** An operator waits for it. */
const MAX_WAIT_MS = 30 * SECOND_MS

const waitAfter = (heard: NoAnswer): number | undefined => {
  if (heard.kind === "refused") return undefined
  const asked = heard.kind === "rate_limited" ? (heard.retryAfterMs ?? AGAIN_AFTER_MS) : AGAIN_AFTER_MS
  return Math.min(asked, MAX_WAIT_MS)
}

const wordsOf = (heard: NoAnswer): string =>
  heard.kind === "rate_limited" ? "it takes no more calls at present" : (heard.message ?? "it refuses the call")

type Answered<H> = Exclude<H, NoAnswer>

const isNoAnswer = (heard: { readonly kind: string }): heard is NoAnswer =>
  heard.kind === "refused" || heard.kind === "rate_limited" || heard.kind === "not_sent" || heard.kind === "unclear"

/** Makes a call that changes nothing until it is answered, a few times at most. */
export const untilAnswered = Effect.fnUntraced(function* <H extends { readonly kind: string }>(
  name: string,
  call: Effect.Effect<H>,
) {
  for (let left = MAX_TRIES; ; ) {
    const heard = yield* call
    if (!isNoAnswer(heard)) return heard as Answered<H>
    const wait = waitAfter(heard)
    if (wait === undefined || --left === 0) return yield* new NotListed({ message: `${name}: ${wordsOf(heard)}` })
    yield* Effect.sleep(wait)
  }
})

/** Whether a transaction may be a charge of ours: by its reference, or by what was sent with it. */
const isOurs = ({ reference, metadata }: ListedTransaction): boolean =>
  isId("charge", reference) || isId("verification", reference) || namesAccount(metadata)

export interface Listed extends ListedTransaction {
  readonly described: ReturnType<typeof describedBy>
}

/** The transactions of an account that may be charges of ours, by reference. */
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
    const before = seen.size
    for (const one of transactions) {
      seen.add(one.reference)
      if (isOurs(one) && !ours.has(one.reference))
        ours.set(one.reference, { ...one, described: describedBy(one.metadata) })
    }
    // Past the last page some rails list nothing, others the last one again.
    if (seen.size === before || (pages !== null && page >= pages)) return ours
  }
})
