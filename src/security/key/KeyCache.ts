/** The in-memory cache of the keys that a process has looked up. */
import type { ApiPlan } from "../../base/apiPlans.ts"
import { SECOND_MS } from "../../base/time.ts"
import type { KeyType } from "./key.ts"
import type { Scopes } from "./scopes.ts"

export interface AccountKey {
  readonly kind: "account"
  readonly id: string
  readonly account_id: string
  readonly livemode: boolean
  readonly last4: string
  readonly type: KeyType
  readonly scopes: Scopes
  readonly origins: ReadonlyArray<string>
  readonly expires_at: number | null
  readonly revoked_at: number | null
  readonly live_access: string
  readonly api_plan: ApiPlan
}

export interface AdministratorKey {
  readonly kind: "administrator"
  readonly id: string
  readonly name: string
  readonly revoked_at: number | null
}

export type KnownKey = AccountKey | AdministratorKey

/** Limit of keys in memory. Above it, the cache is cleared: an installation has thousands at most. */
const MAX_REMEMBERED = 20_000
/** An entry is looked up again after this, with or without a notification. */
const MAX_AGE_MS = 5 * SECOND_MS

/** When a look-up started: `performance.now()`, and the count of notifications until then. */
interface LookUpStart {
  readonly at: number
  readonly changes: number
}

/** Keys by the hash of their text. */
export class KeyCache {
  readonly #keys = new Map<string, { readonly key: KnownKey; readonly at: number }>()
  /** The names of each account's keys. */
  readonly #byAccount = new Map<string, Set<string>>()
  /** Counts notifications: the result of a look-up is not cached if one arrived meanwhile. */
  #changes = 0
  #listening = false

  get changes(): number {
    return this.#changes
  }

  /** Returns a cached key that is younger than the maximum age. */
  get(name: string, now: number): KnownKey | undefined {
    const cached = this.#keys.get(name)
    return cached !== undefined && now - cached.at < MAX_AGE_MS ? cached.key : undefined
  }

  /** Caches the key that was looked up, unless a notification arrived since the look-up started. */
  set(name: string, key: KnownKey, { at, changes }: LookUpStart): void {
    if (!this.#listening || changes !== this.#changes) return
    if (this.#keys.size >= MAX_REMEMBERED) this.#clear()
    this.#keys.set(name, { key, at })
    if (key.kind !== "account") return
    const names = this.#byAccount.get(key.account_id) ?? new Set()
    this.#byAccount.set(key.account_id, names.add(name))
  }

  #clear(): void {
    this.#keys.clear()
    this.#byAccount.clear()
  }

  #forget(name: string): void {
    const key = this.#keys.get(name)?.key
    this.#keys.delete(name)
    if (key?.kind !== "account") return
    const names = this.#byAccount.get(key.account_id)
    names?.delete(name)
    if (names?.size === 0) this.#byAccount.delete(key.account_id)
  }

  /** Drops a changed key (by the hash of its text), or all keys of a changed account (by its ID). */
  changed(hashOrAccount: string): void {
    this.#changes++
    for (const name of this.#byAccount.get(hashOrAccount) ?? [hashOrAccount]) this.#forget(name)
  }

  /** Switches the cache on when the process starts to listen, and off when it stops. */
  listening(isListening: boolean): void {
    this.#changes++
    this.#listening = isListening
    this.#clear()
  }
}
