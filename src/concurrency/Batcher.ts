/**
 * Batcher collects concurrent requests and runs them in batches, one run at a time in each lane. A caller waits for the run that is
 * under way and for its own run. A run never waits for more requests.
 */
import { type Context, Effect, Exit } from "effect"

/** The maximum size of one run. */
const MAX_BATCH_SIZE = 500

type Result<A, E> = Exit.Exit<A | undefined, E>

interface Waiting<Q, A, E> {
  readonly request: Q
  readonly callbacks: Array<(result: Result<A, E>) => void>
}

/** The requests that wait in a lane, by name, in order of arrival. */
type Queue<Q, A, E> = Map<string, Waiting<Q, A, E>>

/** Starts a run when there is room for it; `first` is the first request of the run. A failure fails all requests that waited when it was called. */
type Admit<Q, E> = <A, R>(first: Q, run: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

interface Options<Q, E> {
  /** Requests of different lanes never share a run and do not wait for each other. Without it there is one lane. */
  readonly laneOf?: (request: Q) => string
  /** Delays the start of a run. The run takes all requests that wait in its lane when it starts. */
  readonly admit?: Admit<Q, E>
  /** The size of one request (default 1). `most` limits the sum in a run; a single request is always a run. */
  readonly sizeOf?: (request: Q) => number
  readonly most?: number
}

export class Batcher<Q, A, E, R> {
  /** The context of the process: a run belongs to none of its callers. */
  readonly #context: Context.Context<R>
  readonly #nameOf: (request: Q) => string
  readonly #work: (requests: ReadonlyArray<Q>) => Effect.Effect<ReadonlyMap<string, A>, E, R>
  readonly #laneOf: (request: Q) => string
  readonly #admit: Admit<Q, E>
  readonly #sizeOf: (request: Q) => number
  readonly #most: number
  /** The lanes in which a run is under way or waits for admission. */
  readonly #lanes = new Map<string, Queue<Q, A, E>>()
  readonly #admitted = new Set<string>()

  /** `work` returns a result for each request, by the name that `nameOf` gives it. */
  constructor(
    context: Context.Context<R>,
    nameOf: (request: Q) => string,
    work: (requests: ReadonlyArray<Q>) => Effect.Effect<ReadonlyMap<string, A>, E, R>,
    { laneOf = () => "", admit = (_, run) => run, sizeOf = () => 1, most = MAX_BATCH_SIZE }: Options<Q, E> = {},
  ) {
    this.#context = context
    this.#nameOf = nameOf
    this.#work = work
    this.#laneOf = laneOf
    this.#admit = admit
    this.#sizeOf = sizeOf
    this.#most = most
  }

  /** Removes from a lane the requests of one run, from the first `count` that wait. */
  #take(lane: Queue<Q, A, E>, count = lane.size): ReadonlyArray<[string, Waiting<Q, A, E>]> {
    const taken: Array<[string, Waiting<Q, A, E>]> = []
    let size = 0
    for (const [name, waiting] of lane) {
      size += this.#sizeOf(waiting.request)
      if (taken.length === count || (taken.length > 0 && size > this.#most)) break
      taken.push([name, waiting])
      lane.delete(name)
    }
    return taken
  }

  /** Runs batches until the lane is empty. */
  #run(name: string, lane: Queue<Q, A, E>) {
    return Effect.gen({ self: this }, function* () {
      while (lane.size > 0) {
        let batch: ReadonlyArray<[string, Waiting<Q, A, E>]> = []
        const run = Effect.suspend(() => {
          batch = this.#take(lane)
          this.#admitted.add(name)
          return this.#work(batch.map(([, { request }]) => request))
        })
        const [first] = lane.values()
        const waitingCount = lane.size
        const result = yield* Effect.exit(this.#admit(first!.request, run))
        this.#admitted.delete(name)
        // Only the requests that were refused admission: later ones get their own run.
        if (batch.length === 0) batch = this.#take(lane, waitingCount)
        for (const [name, { callbacks }] of batch)
          for (const callback of callbacks) callback(Exit.map(result, (all) => all.get(name)))
      }
      this.#lanes.delete(name)
    })
  }

  /** Whether a run is under way in the lane of the request, not only waiting for admission. */
  isUnderWay(request: Q): boolean {
    return this.#admitted.has(this.#laneOf(request))
  }

  /** Returns the result of a run that starts after this call. */
  ask(request: Q): Effect.Effect<A | undefined, E> {
    return Effect.callback((resume) => {
      const name = this.#nameOf(request)
      const laneName = this.#laneOf(request)
      const existing = this.#lanes.get(laneName)
      const lane = existing ?? new Map()
      const waiting = lane.get(name)
      if (waiting === undefined) lane.set(name, { request, callbacks: [resume] })
      else waiting.callbacks.push(resume)
      if (existing !== undefined) return
      this.#lanes.set(laneName, lane)
      Effect.runForkWith(this.#context)(this.#run(laneName, lane))
    })
  }
}
