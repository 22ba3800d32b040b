/** Who asked for the changes of a transaction. The journal keeps it (src/runtime/commit.ts). */

export interface Cause {
  readonly kind: "api" | "dashboard" | "page" | "system"
  readonly request_id: string | null
  /** The ID of the key that asked. */
  readonly key: string | null
  /** The member of the account who asked. */
  readonly member: string | null
}

/** A buyer on a hosted page. Its transaction may be shared, so it names no request. */
export const BY_PAGE: Cause = { kind: "page", request_id: null, key: null, member: null }

/** Causes keeps who asked for the changes of a transaction: for all of them, or for those of one actor. */
export class Causes {
  #all: Cause | null = null
  readonly #byActor = new Map<string, Cause>()

  setForAll(cause: Cause): void {
    this.#all = cause
  }

  /** If several requests of a transaction change one actor, the cause for all of them counts. */
  setFor(actor: string, cause: Cause): void {
    const earlier = this.#byActor.get(actor)
    if (earlier === undefined || earlier.request_id === cause.request_id) this.#byActor.set(actor, cause)
    else if (this.#all !== null) this.#byActor.set(actor, this.#all)
  }

  /** The cause of an actor's changes; null: no request asked for them. */
  of(actor: string): Cause | null {
    return this.#byActor.get(actor) ?? this.#all
  }
}
