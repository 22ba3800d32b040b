/** Streams that are each in order, as one in order. */
import { Effect, Pull, Stream } from "effect"

/** A stream of batches: the one that is read and not passed on yet, and how the next is. */
interface Source<A, E> {
  /** Undefined: it has ended. */
  readonly next: Effect.Effect<ReadonlyArray<A> | undefined, E>
  waiting: ReadonlyArray<A>
  hasEnded: boolean
}

/** Reads on where a source has nothing left, until it has or has ended. */
const fill = Effect.fnUntraced(function* <A, E>(source: Source<A, E>) {
  while (source.waiting.length === 0 && !source.hasEnded) {
    const batch = yield* source.next
    source.waiting = batch ?? []
    source.hasEnded = batch === undefined
  }
})

/** Takes what comes next: all that one source has before the others' first; nothing once all have ended. */
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
 * Merges streams of batches, whose items are in the order of `keyOf`, into one in that order. One batch of each is in memory; items of one
 * key that stand together stay together.
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
