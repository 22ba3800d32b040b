/**
 * What many ask for at once, done for all that wait at a time together: however many ask, one run is under way in each lane, and
 * whoever asks waits for no more than that one and their own. Nothing waits for company that does not come.
 */
import { type Context, Effect, Exit } from "effect"

/** The size of what is asked for in one run. */
const MAX_TOGETHER = 500

type Found<A, E> = Exit.Exit<A | undefined, E>

interface Waiting<Q, A, E> {
  readonly question: Q
  readonly tell: Array<(found: Found<A, E>) => void>
}

/** What waits in a lane, by name, in the order in which it came. */
type Queue<Q, A, E> = Map<string, Waiting<Q, A, E>>

/** Lets a run begin, which `first` is the first to be in, when there is room for it; fails for all that waited when it was asked. */
type Admit<Q, E> = <A, R>(first: Q, run: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

interface Options<Q, E> {
  /** Questions of different lanes are never in one run, and do not wait for each other; without it there is one lane. */
  readonly laneOf?: (question: Q) => string
  /** A run begins once this lets it: of all that wait in its lane by then. */
  readonly admit?: Admit<Q, E>
  /** What a question adds to a run (1), which `most` bounds; one question is always a run. */
  readonly sizeOf?: (question: Q) => number
  readonly most?: number
}

export class Batcher<Q, A, E, R> {
  /** Of the process: a run belongs to none of those that wait for it. */
  readonly #context: Context.Context<R>
  readonly #nameOf: (question: Q) => string
  readonly #work: (questions: ReadonlyArray<Q>) => Effect.Effect<ReadonlyMap<string, A>, E, R>
  readonly #laneOf: (question: Q) => string
  readonly #admit: Admit<Q, E>
  readonly #sizeOf: (question: Q) => number
  readonly #most: number
  /** Those in which a run is under way, or waits to be admitted. */
  readonly #lanes = new Map<string, Queue<Q, A, E>>()
  readonly #admitted = new Set<string>()

  /** `work` finds what belongs to the names that `nameOf` gives, or does something for each. */
  constructor(
    context: Context.Context<R>,
    nameOf: (question: Q) => string,
    work: (questions: ReadonlyArray<Q>) => Effect.Effect<ReadonlyMap<string, A>, E, R>,
    { laneOf = () => "", admit = (_, run) => run, sizeOf = () => 1, most = MAX_TOGETHER }: Options<Q, E> = {},
  ) {
    this.#context = context
    this.#nameOf = nameOf
    this.#work = work
    this.#laneOf = laneOf
    this.#admit = admit
    this.#sizeOf = sizeOf
    this.#most = most
  }

  /** Takes out of a lane what goes in one run, of the first `count` that wait in it. */
  #take(lane: Queue<Q, A, E>, count = lane.size): ReadonlyArray<[string, Waiting<Q, A, E>]> {
    const taken: Array<[string, Waiting<Q, A, E>]> = []
    let size = 0
    for (const [name, waiting] of lane) {
      size += this.#sizeOf(waiting.question)
      if (taken.length === count || (taken.length > 0 && size > this.#most)) break
      taken.push([name, waiting])
      lane.delete(name)
    }
    return taken
  }

  /** Works until nothing waits in the lane. */
  #run(name: string, lane: Queue<Q, A, E>) {
    return Effect.gen({ self: this }, function* () {
      while (lane.size > 0) {
        let batch: ReadonlyArray<[string, Waiting<Q, A, E>]> = []
        const run = Effect.suspend(() => {
          batch = this.#take(lane)
          this.#admitted.add(name)
          return this.#work(batch.map(([, { question }]) => question))
        })
        const [first] = lane.values()
        const asking = lane.size
        const found = yield* Effect.exit(this.#admit(first!.question, run))
        this.#admitted.delete(name)
        // Those that were not admitted; who came since asks for themselves.
        if (batch.length === 0) batch = this.#take(lane, asking)
        for (const [name, { tell }] of batch) for (const one of tell) one(Exit.map(found, (all) => all.get(name)))
      }
      this.#lanes.delete(name)
    })
  }

  /** Whether a run is under way in the question's lane, not only waiting to be admitted. */
  isUnderWay(question: Q): boolean {
    return this.#admitted.has(this.#laneOf(question))
  }

  /** What a run that begins after this finds. */
  ask(question: Q): Effect.Effect<A | undefined, E> {
    return Effect.callback((resume) => {
      const name = this.#nameOf(question)
      const of = this.#laneOf(question)
      const standing = this.#lanes.get(of)
      const lane = standing ?? new Map()
      const waiting = lane.get(name)
      if (waiting === undefined) lane.set(name, { question, tell: [resume] })
      else waiting.tell.push(resume)
      if (standing !== undefined) return
      this.#lanes.set(of, lane)
      Effect.runForkWith(this.#context)(this.#run(of, lane))
    })
  }
}
