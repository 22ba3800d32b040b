/** The lanes that a process works, and the tries that are over and not written down yet. In memory only. */
import { Bodies } from "./Bodies.ts"
import { type Outcome, tryDelivery, type Waiting } from "./deliver.ts"
import { EndpointQueue } from "./EndpointQueue.ts"
import type { EndpointRow } from "./endpoint.ts"
import type { Sender } from "./Sender.ts"

/** A try that is over, its lane, and the endpoint as it was tried. */
export interface Tried {
  readonly lane: EndpointQueue
  readonly endpoint: EndpointRow
  readonly delivery: Waiting
  readonly outcome: Outcome
}

export class EndpointQueues {
  /** Of all lanes. */
  readonly bodies: Bodies
  readonly #sender: Sender["Service"]
  /** By endpoint ID; with the row that the endpoint was taken as. */
  readonly #lanes = new Map<string, { readonly lane: EndpointQueue; readonly taken: EndpointRow }>()
  #tried: Array<Tried> = []
  #underWay = 0
  #stopping = false
  #turns = 0

  constructor(sender: Sender["Service"], bodies = new Bodies()) {
    this.#sender = sender
    this.bodies = bodies
  }

  get size(): number {
    return this.#lanes.size
  }

  get all(): ReadonlyArray<EndpointQueue> {
    return [...this.#lanes.values()].map(({ lane }) => lane)
  }

  get ids(): ReadonlyArray<string> {
    return [...this.#lanes.keys()]
  }

  /** The endpoints as they were taken. */
  get taken(): ReadonlyArray<EndpointRow> {
    return [...this.#lanes.values()].map(({ taken }) => taken)
  }

  get underWay(): number {
    return this.#underWay
  }

  get isIdle(): boolean {
    return this.#lanes.size === 0 && this.#tried.length === 0 && this.#underWay === 0
  }

  get(id: string): EndpointQueue | undefined {
    return this.#lanes.get(id)?.lane
  }

  add(endpoint: EndpointRow): void {
    this.#lanes.set(endpoint.id, { lane: new EndpointQueue({ endpoint, secrets: [] }, this.bodies), taken: endpoint })
  }

  /** Gives a lane up; returns the endpoint as it was taken. */
  remove(id: string): ReadonlyArray<EndpointRow> {
    const found = this.#lanes.get(id)
    this.#lanes.delete(id)
    return found === undefined ? [] : [found.taken]
  }

  /** Lets go of what an account's sandbox has waiting, so that it is read anew. */
  clearSandbox(account: string): void {
    for (const { lane } of this.#lanes.values()) {
      const { account_id, livemode } = lane.target.endpoint
      if (account_id === account && !livemode) lane.clear()
    }
  }

  /** Takes room for the bodies of what waits: of one delivery of each lane in turn, and each time of another lane first. */
  takeRoom(): void {
    const { all } = this
    const first = this.#turns++ % Math.max(1, all.length)
    let asking = [...all.slice(first), ...all.slice(0, first)]
    while (asking.length > 0) asking = asking.filter((lane) => lane.takeRoom())
  }

  /** Begins what the lane has to try now, and goes on with it as tries end. */
  start(lane: EndpointQueue): void {
    for (let next = lane.next(); next !== undefined && !this.#stopping; next = lane.next()) {
      const { delivery, body } = next
      const { target } = lane
      this.#underWay++
      void tryDelivery(this.#sender, delivery, body, target).then((outcome) => {
        this.#underWay--
        this.#tried.push({ lane, endpoint: target.endpoint, delivery, outcome })
        lane.tried(delivery)
        this.start(lane)
      })
    }
  }

  /** The tries that are over, to be written down. */
  get tried(): ReadonlyArray<Tried> {
    return [...this.#tried]
  }

  /** With these of them nothing more is to be done. */
  recorded(tries: ReadonlyArray<Tried>): void {
    const done = new Set(tries)
    this.#tried = this.#tried.filter((one) => !done.has(one))
  }

  /** Begins no further try. */
  stop(): void {
    this.#stopping = true
  }
}
