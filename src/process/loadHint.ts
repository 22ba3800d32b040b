/**
 * The load hint says whether this process serves requests. Its background work then runs in small pieces, since a request waits for the
 * piece that is running.
 */

/** A client that sent a request within this time is likely to send more. */
const LASTING_MS = 60_000

interface ServedRequest {
  /** The account of a sandbox request; undefined: no account, or live. */
  readonly account: string | undefined
  readonly at: number
}

let last: ServedRequest | undefined
/** The last request of another account than that of `last`. */
let lastOther: ServedRequest | undefined

/** Records a request, with its account if it is in the sandbox. */
export const recordRequest = (account?: string): void => {
  if (last?.account !== account) lastOther = last
  last = { account, at: performance.now() }
}

/** Whether requests arrive. `except`: requests of other accounts than this one, which would only wait for its own work. */
export const isServing = (except?: string): boolean => {
  const request = except !== undefined && last?.account === except ? lastOther : last
  return request !== undefined && performance.now() - request.at < LASTING_MS
}
