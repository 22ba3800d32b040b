/** Merges sorted streams into one sorted stream. */
import { Effect, Pull, Stream } from "effect"

/** A stream of batches: the current batch, and the effect that reads the next one. */
interface Source<A, E> {
  /** Undefined if the stream has ended. */
  readonly next: Effect.Effect<ReadonlyArray<A> | undefined, E>
  waiting: ReadonlyArray<A>
  hasEnded: boolean
}

/** Reads from an empty source until it has items or has ended. */
const fill = Effect.fnUntraced(function* <A, E>(source: Source<A, E>) {
  while (source.waiting.length === 0 && !source.hasEnded) {
    const batch = yield* source.next
    source.waiting = batch ?? []
    source.hasEnded = batch === undefined
  }
})

/** Takes the next items: all items of one source before the first of the others; none when all have ended. */
const take = Effect.fnUntraced(function* <A, E>(sources: ReadonlyArray<Source<A, E>>, keyOf: (item: A) => string) {
  yield* Effect.forEach(sources, fill, { discard: true })
  const waiting = sources.filter((source) => source.waiting.length > 0)
  const keys = waiting.map((source) => keyOf(source.waiting[0]!))
  const [first, second] = keys.toSorted()
  const source = waiting[keys.indexOf(first!)]
  if (source === undefined) return []
  const end = second === undefined ? -1 : source.waiting.findIndex((item) => keyOf(item) > second)
  const items = end === -1 ? source.waiting : source.waiting.slice(0, end)
  source.waiting = source.waiting.slice(items.length)
  return items
})

/**
 * Merges streams of batches, whose items are in the order of `keyOf`, into one in that order. One batch of each is in memory. Consecutive
 * items with the same key stay together.
 */
export const merged = <A, E, R>(
  streams: ReadonlyArray<Stream.Stream<ReadonlyArray<A>, E, R>>,
  keyOf: (item: A) => string,
): Stream.Stream<ReadonlyArray<A>, E, R> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const sources = yield* Effect.forEach(streams, (stream) =>
        Effect.map(Stream.toPull(stream), (pull): Source<A, E> => {
          const next = Effect.map(pull, (batches): ReadonlyArray<A> | undefined => batches.flat())
          return { next: Pull.catchDone(next, () => Effect.undefined), waiting: [], hasEnded: false }
        }),
      )
      return Stream.fromEffectRepeat(Effect.suspend(() => take(sources, keyOf))).pipe(
        Stream.takeWhile((items) => items.length > 0),
      )
    }),
  )
