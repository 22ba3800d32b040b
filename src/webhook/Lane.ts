/**
 * The deliveries of one endpoint that a process has in hand: several are tried at once, those of one object one after the
 * other, in order (decision I3). In memory only.
 */
import type { Target, Waiting } from "./deliver.ts"

/** Tries of an endpoint under way. */
const MAX_AT_ONCE = 16
/** The same, and deliveries in hand, where the last try failed. */
const MAX_AT_ONCE_FAILING = 2

export class Lane {
  #target: Target
  /** By `seq`: what is in hand until its outcome is recorded. */
  readonly #inHand = new Map<number, Waiting>()
  /** What is not under way yet, in order. */
  #queue: Array<Waiting> = []
  /** Objects of which a delivery is under way. */
  readonly #busy = new Set<string>()

  constructor(target: Target) {
    this.#target = target
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

  /** The next to be tried, which is under way from here on; undefined where none may be now. */
  next(): Waiting | undefined {
    if (this.#busy.size >= (this.#failing ? MAX_AT_ONCE_FAILING : MAX_AT_ONCE)) return undefined
    const index = this.#queue.findIndex(({ object_id }) => !this.#busy.has(object_id))
    if (index === -1) return undefined
    const [delivery] = this.#queue.splice(index, 1)
    this.#busy.add(delivery!.object_id)
    return delivery
  }

  /** A try is over; the delivery stays in hand. */
  tried(delivery: Waiting): void {
    this.#busy.delete(delivery.object_id)
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
    for (const { seq } of this.#queue) this.#inHand.delete(seq)
    this.#queue = []
  }
}
