/**
 * The deliveries of one endpoint that a process has in hand: several are tried at once, those of one object one after the
 * other, in order (decision I3). Their bodies are loaded in the same order, as there is room (Bodies.ts). In memory only.
 */
import type { Bodies } from "./Bodies.ts"
import type { Target, Waiting } from "./deliver.ts"

/** Tries of an endpoint under way. */
const MAX_AT_ONCE = 16
/** The same, and deliveries in hand, where the last try failed. */
const MAX_AT_ONCE_FAILING = 2

/** A delivery to be tried, with what is sent. */
export interface Ready {
  readonly delivery: Waiting
  readonly body: string
}

export class EndpointQueue {
  #target: Target
  readonly #bodies: Bodies
  /** By `seq`: what is in hand until its outcome is recorded. */
  readonly #inHand = new Map<number, Waiting>()
  /** What is not under way yet, in order. */
  #queue: Array<Waiting> = []
  /** The first so many of the queue have room for their bodies. */
  #withRoom = 0
  /** Objects of which a delivery is under way. */
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

  /** How many more to read, of a window of so many: none until half of it is done, so that reading is worth its while. */
  room(window: number): number {
    const max = this.#failing ? MAX_AT_ONCE_FAILING : window
    return this.#inHand.size > max / 2 ? 0 : max - this.#inHand.size
  }

  get idle(): boolean {
    return this.#inHand.size === 0
  }

  get inHand(): ReadonlyArray<number> {
    return [...this.#inHand.keys()]
  }

  add(delivery: Waiting): void {
    this.#inHand.set(delivery.seq, delivery)
    this.#queue.push(delivery)
  }

  /** Takes room for the body of the next one that has none; returns whether there was any. */
  takeRoom(): boolean {
    const next = this.#queue[this.#withRoom]
    if (next === undefined || !this.#bodies.take(next)) return false
    this.#withRoom++
    return true
  }

  /** Takes one that has room out of the queue. */
  #take(index: number): void {
    this.#queue.splice(index, 1)
    this.#withRoom--
  }

  /** The next to be tried, which is under way from here on; undefined where none may be now. */
  next(): Ready | undefined {
    if (this.#busy.size >= (this.#failing ? MAX_AT_ONCE_FAILING : MAX_AT_ONCE)) return undefined
    let index = 0
    while (index < this.#withRoom) {
      const delivery = this.#queue[index]!
      const body = this.#bodies.of(delivery)
      // What is behind it waits as well: it may be about the same object.
      if (body === undefined) return undefined
      if (body === null) {
        // Deleted with its event meanwhile.
        this.#take(index)
        this.#bodies.release(delivery)
        this.#inHand.delete(delivery.seq)
      } else if (this.#busy.has(delivery.object_id)) index++
      else {
        this.#take(index)
        this.#busy.add(delivery.object_id)
        return { delivery, body }
      }
    }
    return undefined
  }

  /** A try is over; the delivery stays in hand, without its body. */
  tried(delivery: Waiting): void {
    this.#busy.delete(delivery.object_id)
    this.#bodies.release(delivery)
  }

  /** Its outcome is recorded. */
  recorded(seq: number): void {
    this.#inHand.delete(seq)
  }

  /** Takes the endpoint as it is now. What waits here is let go of where it is not to be sent any more, or not at this pace. */
  update(target: Target): void {
    const { failures, state, given_up_to } = target.endpoint
    const slowsDown = failures > 0 && !this.#failing
    this.#target = target
    if (state !== "enabled" || given_up_to > 0 || slowsDown) this.clear()
  }

  /** Lets go of all that is not under way. */
  clear(): void {
    for (const delivery of this.#queue.slice(0, this.#withRoom)) this.#bodies.release(delivery)
    for (const { seq } of this.#queue) this.#inHand.delete(seq)
    this.#queue = []
    this.#withRoom = 0
  }
}
