/**
 * Whether this process is answering requests: its background work then goes in small pieces, since whoever asks waits for the
 * piece that is under way.
 */

/** Whoever has asked within this time is likely to ask again. */
const LASTING_MS = 60_000

let askedAt = Number.NEGATIVE_INFINITY

export const noteRequest = (): void => {
  askedAt = performance.now()
}

export const isServing = (): boolean => performance.now() - askedAt < LASTING_MS
