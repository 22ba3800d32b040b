/**
 * The bodies of events that a process is about to send: one copy of each, however many endpoints it goes to, and all of them
 * bounded in bytes. In memory only.
 */

import { Counter } from "../../concurrency/Counter.ts"
import type { Ref } from "../../db/tenant.ts"
import type { Waiting } from "./deliver.ts"

const MIB = 1024 * 1024

/**
 * Of all deliveries that have room. Each counts with its whole body, shared or not: while it is tried a copy of it is on its
 * way to the socket.
 */
const MAX_BYTES = 64 * MIB
/**
 * An account may hold so much of what is free, at most 7.1 MiB. The more accounts hold much, the less each of them may, so
 * that there is room for whoever holds little.
 */
const ACCOUNT_SHARE = 1 / 8
/** The same for an endpoint, of which an account has at most 32: one that answers slowly leaves room for its others. */
const ENDPOINT_SHARE = ACCOUNT_SHARE / 32
/** What is read by one statement, or one body. */
const MAX_READ_BYTES = 8 * MIB

interface Shared {
  readonly event: Ref
  readonly bytes: number
  /** undefined: not loaded yet; null: there is no such event any more. */
  body: string | null | undefined
  /** Deliveries that have room for it. */
  users: number
}

export class Bodies {
  readonly #maxBytes: number
  #bytes = 0
  /** Bytes by account and by endpoint. */
  readonly #held = new Counter()
  /** By event ID: those that have users. */
  readonly #shared = new Map<string, Shared>()
  /** Of these, what is to be loaded. */
  readonly #missing = new Map<string, Shared>()

  constructor(maxBytes = MAX_BYTES) {
    this.#maxBytes = maxBytes
  }

  /** What all deliveries hold that have room. */
  get bytes(): number {
    return this.#bytes
  }

  /** What those of an account or an endpoint hold, by its ID. */
  heldBy(owner: string): number {
    return this.#held.of(owner)
  }

  /** How many bodies are in memory or about to be. */
  get size(): number {
    return this.#shared.size
  }

  /**
   * Whether a delivery may take room. An account that holds nothing may take what is larger than its share where that much is
   * free, and anything when nobody holds anything: nothing waits for ever, since every try ends.
   */
  #hasRoom({ account_id, webhook_endpoint_id, bytes }: Waiting): boolean {
    const free = this.#maxBytes - this.#bytes
    const [account, endpoint] = [this.heldBy(account_id), this.heldBy(webhook_endpoint_id)]
    if (account === 0) return bytes <= free || this.#bytes === 0
    return account + bytes <= free * ACCOUNT_SHARE && (endpoint === 0 || endpoint + bytes <= free * ENDPOINT_SHARE)
  }

  #count({ account_id, webhook_endpoint_id }: Waiting, bytes: number): void {
    this.#bytes += bytes
    for (const owner of [account_id, webhook_endpoint_id]) {
      this.#held.add(owner, bytes)
    }
  }

  /** Takes room for a delivery's body, which is loaded next; returns whether there was any. */
  take(delivery: Waiting): boolean {
    if (!this.#hasRoom(delivery)) return false
    const { account_id, livemode, event_id, bytes } = delivery
    this.#count(delivery, bytes)
    const shared = this.#shared.get(event_id)
    if (shared !== undefined) shared.users++
    else {
      const added = { event: { account_id, livemode, id: event_id }, bytes, body: undefined, users: 1 }
      this.#shared.set(event_id, added)
      this.#missing.set(event_id, added)
    }
    return true
  }

  /** Gives a delivery's room back. With the last one of its event the body goes. */
  release(delivery: Waiting): void {
    this.#count(delivery, -delivery.bytes)
    const shared = this.#shared.get(delivery.event_id)!
    if (--shared.users > 0) return
    this.#shared.delete(delivery.event_id)
    this.#missing.delete(delivery.event_id)
  }

  /** The events whose bodies are to be loaded next, by one statement. */
  get missing(): ReadonlyArray<Ref> {
    const events: Array<Ref> = []
    let bytes = 0
    for (const shared of this.#missing.values()) {
      if (events.length > 0 && bytes + shared.bytes > MAX_READ_BYTES) break
      events.push(shared.event)
      bytes += shared.bytes
    }
    return events
  }

  /** Keeps the bodies that were found of those `events`, by ID. */
  load(events: ReadonlyArray<Ref>, found: ReadonlyMap<string, string>): void {
    for (const { id } of events) {
      const shared = this.#missing.get(id)
      if (shared !== undefined) shared.body = found.get(id) ?? null
      this.#missing.delete(id)
    }
  }

  /** The body of a delivery that has room. */
  of({ event_id }: Waiting): Shared["body"] {
    return this.#shared.get(event_id)?.body
  }
}
