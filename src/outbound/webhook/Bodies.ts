/**
 * The event bodies that a process is about to send, in memory only. Each body is loaded once for all endpoints, and their total
 * size is limited.
 */

import { Counter } from "../../concurrency/Counter.ts"
import type { Ref } from "../../db/tenant.ts"
import type { Waiting } from "./deliver.ts"

const MIB = 1024 * 1024

/**
 * The limit for all deliveries that have reserved room. Each counts its whole body, shared or not: during its try the socket has
 * its own copy.
 */
const MAX_BYTES = 64 * MIB
/**
 * The share of the free bytes that an account may reserve, at most 7.1 MiB. The more is reserved by large accounts, the less each
 * may reserve, so there is room for small ones.
 */
const ACCOUNT_SHARE = 1 / 8
/** The share of an endpoint. An account has at most 32 endpoints: a slow one leaves room for the others. */
const ENDPOINT_SHARE = ACCOUNT_SHARE / 32
/** Bytes read per statement; a larger body is read alone. */
const MAX_READ_BYTES = 8 * MIB

interface Shared {
  readonly event: Ref
  readonly bytes: number
  /** undefined: not loaded yet; null: the event was deleted. */
  body: string | null | undefined
  /** The number of deliveries that have reserved room for it. */
  users: number
}

export class Bodies {
  readonly #maxBytes: number
  #bytes = 0
  /** Reserved bytes, by account ID and by endpoint ID. */
  readonly #reserved = new Counter()
  /** The bodies that have users, by event ID. */
  readonly #shared = new Map<string, Shared>()
  /** The bodies that are not loaded yet, by event ID. */
  readonly #missing = new Map<string, Shared>()

  constructor(maxBytes = MAX_BYTES) {
    this.#maxBytes = maxBytes
  }

  /** The bytes reserved by all deliveries. */
  get bytes(): number {
    return this.#bytes
  }

  /** The bytes reserved by an account or an endpoint, by its ID. */
  reservedBy(owner: string): number {
    return this.#reserved.of(owner)
  }

  /** The number of bodies in memory or about to be loaded. */
  get size(): number {
    return this.#shared.size
  }

  /**
   * Whether a delivery may reserve room. An account without reservations may exceed its share if that much is free, and may
   * reserve any size if nothing is reserved. So no delivery waits forever, since every try ends.
   */
  #hasRoom({ account_id, webhook_endpoint_id, bytes }: Waiting): boolean {
    const free = this.#maxBytes - this.#bytes
    const [account, endpoint] = [this.reservedBy(account_id), this.reservedBy(webhook_endpoint_id)]
    if (account === 0) return bytes <= free || this.#bytes === 0
    return account + bytes <= free * ACCOUNT_SHARE && (endpoint === 0 || endpoint + bytes <= free * ENDPOINT_SHARE)
  }

  #count({ account_id, webhook_endpoint_id }: Waiting, bytes: number): void {
    this.#bytes += bytes
    for (const owner of [account_id, webhook_endpoint_id]) {
      this.#reserved.add(owner, bytes)
    }
  }

  /** Reserves room for a delivery's body, which is loaded next. Returns whether there was room. */
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

  /** Releases a delivery's room. The last delivery of an event also removes its body. */
  release(delivery: Waiting): void {
    this.#count(delivery, -delivery.bytes)
    const shared = this.#shared.get(delivery.event_id)!
    if (--shared.users > 0) return
    this.#shared.delete(delivery.event_id)
    this.#missing.delete(delivery.event_id)
  }

  /** The events whose bodies are loaded by the next statement. */
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

  /** Stores the bodies that were found for `events`, by ID. */
  load(events: ReadonlyArray<Ref>, found: ReadonlyMap<string, string>): void {
    for (const { id } of events) {
      const shared = this.#missing.get(id)
      if (shared !== undefined) shared.body = found.get(id) ?? null
      this.#missing.delete(id)
    }
  }

  /** Returns the body of a delivery that has reserved room. */
  of({ event_id }: Waiting): Shared["body"] {
    return this.#shared.get(event_id)?.body
  }
}
