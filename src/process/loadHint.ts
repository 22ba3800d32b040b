/**
 * Whether this process is answering requests: its background work then goes in small pieces, since whoever asks waits for the
 * piece that is under way.
 */

/** Whoever has asked within this time is likely to ask again. */
const LASTING_MS = 60_000

interface Asked {
  /** In the sandbox; undefined: of no account, or in live. */
  readonly account: string | undefined
  readonly at: number
}

let last: Asked | undefined
/** The last that was of another account than the last one. */
let lastOther: Asked | undefined

/** Notes a request, of an account where it is one's in the sandbox. */
export const recordRequest = (account?: string): void => {
  if (last?.account !== account) lastOther = last
  last = { account, at: performance.now() }
}

/** Whether anybody asks; `but`: anybody else than this account, whose own work it is that they would wait for. */
export const isServing = (but?: string): boolean => {
  const asked = but !== undefined && last?.account === but ? lastOther : last
  return asked !== undefined && performance.now() - asked.at < LASTING_MS
}
