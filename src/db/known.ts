/**
 * Decisions by what a process remembers instead of what it has just read. The statement that writes what comes of them checks that all of it
 * is still so before it does anything else; else nothing is written, and it is decided again by what is read.
 */
import { Context, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { Statement } from "effect/sql/Statement"
import type { OneStatement } from "./sending.ts"
import { sqlStateOf } from "./sqlState.ts"
import type { Ref } from "./tenant.ts"
import type { Write } from "./writes.ts"

/** What a process remembers of so many objects at most: what was not asked for longest is forgotten first. */
export class RememberedRows<A extends Ref> {
  readonly #most: number
  readonly #byId = new Map<string, A>()

  constructor(most: number) {
    this.#most = most
  }

  note(known: A): void {
    this.#byId.delete(known.id)
    this.#byId.set(known.id, known)
    if (this.#byId.size <= this.#most) return
    const [oldest] = this.#byId.keys()
    this.#byId.delete(oldest!)
  }

  /** The object with this ID; undefined where it is not known, or is another tenant's. */
  find({ account_id, livemode, id }: Ref): A | undefined {
    const known = this.#byId.get(id)
    if (known === undefined || known.account_id !== account_id || known.livemode !== livemode) return undefined
    this.note(known)
    return known
  }

  forget({ id }: Ref): void {
    this.#byId.delete(id)
  }
}

/** What a write goes by beside its rows: a read that returns so many rows if all is as it is known, else fewer. It waits for nobody. */
export interface Check {
  readonly name: string
  readonly read: (sql: SqlClient.SqlClient) => Statement<object>
  readonly rows: number
}

const OUTDATED = "BK001"

/** Whether what was written as it was known has changed. */
export const isOutdated = (error: unknown): boolean => sqlStateOf(error) === OUTDATED

/** The parts of a statement that check. */
export const checking = (sql: SqlClient.SqlClient, checks: ReadonlyArray<Check>): ReadonlyArray<Write> =>
  checks.map(({ name, read }) => [name, read(sql)])

/** How many rows checks find if all is as it is known. */
export const rowsOfChecks = (checks: ReadonlyArray<Check>): number => checks.reduce((sum, { rows }) => sum + rows, 0)

/**
 * What a statement ends with that does nothing if its parts have fewer rows than they should, together; else it carries out `last`, a SELECT
 * of one value, too.
 */
export const refusingOutdated = (
  sql: SqlClient.SqlClient,
  parts: ReadonlyArray<Write>,
  rows: number,
  last: OneStatement,
): Statement<object> => {
  const found = sql.join(" + ", false)(parts.map(([name]) => sql`(SELECT count(*) FROM ${sql.literal(name)})`))
  return sql`SELECT refuse_outdated(${found}, ${rows})${last === undefined ? sql`` : sql`, (${last})`}`
}

/** Facts as they are remembered, with what checks them. */
export type Known<F> = F & { readonly checks: ReadonlyArray<Check> }

/** Whether the running transaction may go by what is remembered. */
const MayRemember = Context.Reference<boolean>("billing/db/MayRemember", { defaultValue: () => false })

/** Carries a transaction out by what is remembered, and, where that was outdated, once more by what is read. */
export const rememberingFirst = <A, E, R>(transaction: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.catchIf(Effect.provideService(transaction, MayRemember, true), isOutdated, () => transaction)

/** Facts as they are remembered, where they are and may be gone by; else as they are read, of which nothing is to be checked. */
export const rememberedOrRead = Effect.fnUntraced(function* <F extends object, E1, R1, E2, R2>(
  remembered: Effect.Effect<Known<F> | undefined, E1, R1>,
  read: Effect.Effect<F, E2, R2>,
) {
  const known = (yield* MayRemember) ? yield* remembered : undefined
  return known ?? ({ ...(yield* read), checks: [] } satisfies Known<F>)
})
