/**
 * The deliveries of one endpoint that are in flight in this process, in memory only. Several are tried concurrently; those of one
 * object are tried one after the other, in order (decision I3). Bodies are loaded in the same order, if there is room (Bodies.ts).
 */
import type { Bodies } from "./Bodies.ts"
import type { Target, Waiting } from "./deliver.ts"

/** Concurrent tries of an endpoint. */
const MAX_CONCURRENT = 16
/** Concurrent tries, and deliveries in flight, of an endpoint whose last try failed. */
const MAX_CONCURRENT_FAILING = 2

/** A delivery to be tried, with its body. */
export interface Ready {
  readonly delivery: Waiting
  readonly body: string
}

export class EndpointQueue {
  #target: Target
  readonly #bodies: Bodies
  /** The deliveries whose outcome is not recorded yet, by `seq`. */
  readonly #inFlight = new Map<number, Waiting>()
  /** The deliveries that are not being tried yet, in order. */
  #queue: Array<Waiting> = []
  /** How many deliveries at the head of the queue have reserved room for their bodies. */
  #withRoom = 0
  /** The objects that have a delivery being tried. */
  readonly #busy = new Set<string>()

  constructor(target: Target, bodies: Bodies) {
    this.#target = target
    this.#bodies = bodies
  }

  get target(): Target {
    return this.#target
  }

  get #failing(): boolean {
    return this.#target.endpoint.failures > 0
  }

  /** Returns how many more deliveries to read, of at most `window`. Returns 0 until half of them are done, to read in batches. */
  room(window: number): number {
    const max = this.#failing ? MAX_CONCURRENT_FAILING : window
    return this.#inFlight.size > max / 2 ? 0 : max - this.#inFlight.size
  }

  get idle(): boolean {
    return this.#inFlight.size === 0
  }

  get inFlight(): ReadonlyArray<number> {
    return [...this.#inFlight.keys()]
  }

  add(delivery: Waiting): void {
    this.#inFlight.set(delivery.seq, delivery)
    this.#queue.push(delivery)
  }

  /** Reserves room for the next body. Returns whether there was room. */
  takeRoom(): boolean {
    const next = this.#queue[this.#withRoom]
    if (next === undefined || !this.#bodies.take(next)) return false
    this.#withRoom++
    return true
  }

  /** Removes a delivery with reserved room from the queue. */
  #take(index: number): void {
    this.#queue.splice(index, 1)
    this.#withRoom--
  }

  /** Takes the next delivery to try; undefined if none may be tried now. */
  next(): Ready | undefined {
    if (this.#busy.size >= (this.#failing ? MAX_CONCURRENT_FAILING : MAX_CONCURRENT)) return undefined
    let index = 0
    while (index < this.#withRoom) {
      const delivery = this.#queue[index]!
      const body = this.#bodies.of(delivery)
      // Later deliveries wait too: they may be about the same object.
      if (body === undefined) return undefined
      if (body === null) {
        // The delivery was deleted with its event.
        this.#take(index)
        this.#bodies.release(delivery)
        this.#inFlight.delete(delivery.seq)
      } else if (this.#busy.has(delivery.object_id)) index++
      else {
        this.#take(index)
        this.#busy.add(delivery.object_id)
        return { delivery, body }
      }
    }
    return undefined
  }

  /** Ends a try. The delivery stays in flight without its body until its outcome is recorded. */
  tried(delivery: Waiting): void {
    this.#busy.delete(delivery.object_id)
    this.#bodies.release(delivery)
  }

  /** Removes a delivery whose outcome is recorded. */
  recorded(seq: number): void {
    this.#inFlight.delete(seq)
  }

  /** Updates the endpoint. Clears the queue if the endpoint is disabled or has given up deliveries, or if it starts to fail. */
  update(target: Target): void {
    const { failures, state, given_up_to } = target.endpoint
    const slowsDown = failures > 0 && !this.#failing
    this.#target = target
    if (state !== "enabled" || given_up_to > 0 || slowsDown) this.clear()
  }

  /** Removes all deliveries that are not being tried. */
  clear(): void {
    for (const delivery of this.#queue.slice(0, this.#withRoom)) this.#bodies.release(delivery)
    for (const { seq } of this.#queue) this.#inFlight.delete(seq)
    this.#queue = []
    this.#withRoom = 0
  }
}
