/** The endpoint queues of a process, and the finished tries that are not recorded yet. In memory only. */
import { Bodies } from "./Bodies.ts"
import { type Outcome, tryDelivery, type Waiting } from "./deliver.ts"
import { EndpointQueue } from "./EndpointQueue.ts"
import type { EndpointRow } from "./endpoint.ts"
import type { Sender } from "./Sender.ts"

/** A finished try, its queue, and the endpoint's row at the start of the try. */
export interface Tried {
  readonly queue: EndpointQueue
  readonly endpoint: EndpointRow
  readonly delivery: Waiting
  readonly outcome: Outcome
}

export class EndpointQueues {
  /** The bodies of all queues. */
  readonly bodies: Bodies
  readonly #sender: Sender["Service"]
  /** The queues by endpoint ID, with the endpoint's row when it was taken. */
  readonly #queues = new Map<string, { readonly queue: EndpointQueue; readonly taken: EndpointRow }>()
  #tried: Array<Tried> = []
  #inFlight = 0
  #stopping = false
  #rounds = 0

  constructor(sender: Sender["Service"], bodies = new Bodies()) {
    this.#sender = sender
    this.bodies = bodies
  }

  get size(): number {
    return this.#queues.size
  }

  get all(): ReadonlyArray<EndpointQueue> {
    return [...this.#queues.values()].map(({ queue }) => queue)
  }

  get ids(): ReadonlyArray<string> {
    return [...this.#queues.keys()]
  }

  /** The endpoints' rows when they were taken. */
  get taken(): ReadonlyArray<EndpointRow> {
    return [...this.#queues.values()].map(({ taken }) => taken)
  }

  get underWay(): number {
    return this.#inFlight
  }

  get isIdle(): boolean {
    return this.#queues.size === 0 && this.#tried.length === 0 && this.#inFlight === 0
  }

  get(id: string): EndpointQueue | undefined {
    return this.#queues.get(id)?.queue
  }

  add(endpoint: EndpointRow): void {
    this.#queues.set(endpoint.id, { queue: new EndpointQueue({ endpoint, secrets: [] }, this.bodies), taken: endpoint })
  }

  /** Removes a queue. Returns the endpoint's row when it was taken. */
  remove(id: string): ReadonlyArray<EndpointRow> {
    const found = this.#queues.get(id)
    this.#queues.delete(id)
    return found === undefined ? [] : [found.taken]
  }

  /** Clears the queues of an account's sandbox, so that they are read again. */
  clearSandbox(account: string): void {
    for (const { queue } of this.#queues.values()) {
      const { account_id, livemode } = queue.target.endpoint
      if (account_id === account && !livemode) queue.clear()
    }
  }

  /** Reserves room for waiting bodies: one delivery of each queue in turn. Each call starts with another queue. */
  takeRoom(): void {
    const { all } = this
    const first = this.#rounds++ % Math.max(1, all.length)
    let unfinished = [...all.slice(first), ...all.slice(0, first)]
    while (unfinished.length > 0) unfinished = unfinished.filter((queue) => queue.takeRoom())
  }

  /** Starts the tries that the queue allows now, and continues as tries end. */
  start(queue: EndpointQueue): void {
    for (let next = queue.next(); next !== undefined && !this.#stopping; next = queue.next()) {
      const { delivery, body } = next
      const { target } = queue
      this.#inFlight++
      void tryDelivery(this.#sender, delivery, body, target).then((outcome) => {
        this.#inFlight--
        this.#tried.push({ queue: queue, endpoint: target.endpoint, delivery, outcome })
        queue.tried(delivery)
        this.start(queue)
      })
    }
  }

  /** The finished tries that are to be recorded. */
  get tried(): ReadonlyArray<Tried> {
    return [...this.#tried]
  }

  /** Removes tries that are recorded, or that another cell will repeat. */
  recorded(tries: ReadonlyArray<Tried>): void {
    const done = new Set(tries)
    this.#tried = this.#tried.filter((one) => !done.has(one))
  }

  /** Stops starting tries. */
  stop(): void {
    this.#stopping = true
  }
}
