/**
 * What many ask for at once, done for all that wait at a time together: however many ask, one run is under way, and whoever
 * asks waits for no more than that one and their own.
 */
import { type Context, Effect, Exit } from "effect"

/** Asked for in one run. */
const MAX_TOGETHER = 500

type Found<A, E> = Exit.Exit<A | undefined, E>

interface Waiting<Q, A, E> {
  readonly question: Q
  readonly tell: Array<(found: Found<A, E>) => void>
}

export class Together<Q, A, E, R> {
  /** Of the process: a run belongs to none of those that wait for it. */
  readonly #context: Context.Context<R>
  readonly #nameOf: (question: Q) => string
  readonly #work: (questions: ReadonlyArray<Q>) => Effect.Effect<ReadonlyMap<string, A>, E, R>
  /** By name, in the order in which they came. */
  readonly #waiting = new Map<string, Waiting<Q, A, E>>()
  #underWay = false

  /** `work` finds what belongs to the names that `nameOf` gives, or does something for each. */
  constructor(
    context: Context.Context<R>,
    nameOf: (question: Q) => string,
    work: (questions: ReadonlyArray<Q>) => Effect.Effect<ReadonlyMap<string, A>, E, R>,
  ) {
    this.#context = context
    this.#nameOf = nameOf
    this.#work = work
  }

  /** Works until nothing waits. */
  readonly #run = Effect.gen({ self: this }, function* () {
    while (this.#waiting.size > 0) {
      const batch = [...this.#waiting].slice(0, MAX_TOGETHER)
      for (const [name] of batch) this.#waiting.delete(name)
      const found = yield* Effect.exit(this.#work(batch.map(([, { question }]) => question)))
      for (const [name, { tell }] of batch) for (const one of tell) one(Exit.map(found, (all) => all.get(name)))
    }
    this.#underWay = false
  })

  /** What a run that begins after this finds. */
  ask(question: Q): Effect.Effect<A | undefined, E> {
    return Effect.callback((resume) => {
      const name = this.#nameOf(question)
      const waiting = this.#waiting.get(name)
      if (waiting === undefined) this.#waiting.set(name, { question, tell: [resume] })
      else waiting.tell.push(resume)
      if (this.#underWay) return
      this.#underWay = true
      Effect.runForkWith(this.#context)(this.#run)
    })
  }
}
