/** What a process remembers of keys that it has looked up. In memory only. */
import type { ApiPlan } from "../../base/apiPlans.ts"
import { SECOND_MS } from "../../base/time.ts"
import type { KeyType } from "./key.ts"
import type { Scopes } from "./scopes.ts"

export interface AccountKey {
  readonly kind: "account"
  readonly id: string
  readonly account_id: string
  readonly livemode: boolean
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

/** Keys in memory; past it, all are forgotten: an installation has thousands at most. */
const MAX_REMEMBERED = 20_000
/** What was looked up is looked up again after this, heard of or not. */
const MAX_AGE_MS = 5 * SECOND_MS

/** When a look-up began: `performance.now()`, and the changes heard of until then. */
interface Begun {
  readonly at: number
  readonly changes: number
}

/** Keys by the hash of their text. */
export class Remembered {
  readonly #keys = new Map<string, { readonly key: KnownKey; readonly at: number }>()
  /** The names of each account's keys. */
  readonly #byAccount = new Map<string, Set<string>>()
  /** Counts the changes heard of: a look-up that one overtakes is not remembered. */
  #changes = 0
  #listening = false

  get changes(): number {
    return this.#changes
  }

  /** A key that was looked up lately. */
  get(name: string, now: number): KnownKey | undefined {
    const known = this.#keys.get(name)
    return known !== undefined && now - known.at < MAX_AGE_MS ? known.key : undefined
  }

  /** Remembers what was looked up, unless something changed since the look-up began. */
  set(name: string, key: KnownKey, { at, changes }: Begun): void {
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

  /** A key changed (by the hash of its text), or an account (by its ID) and with it all of its keys. */
  changed(what: string): void {
    this.#changes++
    for (const name of this.#byAccount.get(what) ?? [what]) this.#forget(name)
  }

  /** Everything announced is heard from now on, or nothing is. */
  listening(now: boolean): void {
    this.#changes++
    this.#listening = now
    this.#clear()
  }
}
