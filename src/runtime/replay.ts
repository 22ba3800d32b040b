/** Proves the journal: replaying it through the machines must give the current rows. */
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { AnyMachineSnapshot, AnyStateMachine, EventFrom, InputFrom } from "xstate"
import { create, decide, stateName, type TimedEvent } from "../../machines/decide.ts"
import { canonical } from "../base/json.ts"
import { REF_COLUMNS, rowsAsTable } from "../db/rows.ts"
import { livesHere, type Tenant } from "../db/tenant.ts"
import type { ActorKind, ActorRow, Lifecycle } from "./lifecycle.ts"
import { effectName } from "./outcome.ts"

/** Journal rows read at a time: a few megabytes. */
const PAGE = 5_000

interface JournalRow {
  readonly account_id: string
  readonly livemode: boolean
  readonly actor_id: string
  readonly version: number
  readonly machine_version: number
  readonly actor_kind: ActorKind
  readonly event: TimedEvent
  readonly to_state: string
}

/** A journal row, with what its charges come to (kobo). */
interface ProvenRow extends JournalRow {
  readonly effects: ReadonlyArray<string>
  readonly amount: number
}

/** What a transition does: the state that it leads to, its effects, and what it charges (kobo). */
interface Decided {
  readonly to: string
  readonly effects: ReadonlyArray<string>
  readonly amount: number
}

interface Difference {
  readonly actor: string
  readonly reason: string
}

/** What the charges that a decision attempts come to (kobo). */
const attemptedIn = (effects: ReadonlyArray<{ readonly type: string; readonly params: unknown }>): number =>
  effects.reduce((sum, { type, params }) => {
    const { amountKobo } = (params ?? {}) as { readonly amountKobo?: unknown }
    return type === "attemptCharge" && typeof amountKobo === "number" ? sum + amountKobo : sum
  }, 0)

/** The replay of one kind of actor: a closure over the types of its machine and its rows. */
export interface Replayable {
  readonly kind: ActorKind
  /** Returns what is wrong with one actor's journal, or undefined. */
  readonly check: (row: ActorRow | undefined, journal: ReadonlyArray<JournalRow>) => string | undefined
  /** Returns what each transition of one actor's journal does on today's machine. Without a row the journal cannot be replayed. */
  readonly decideAgain: (row: ActorRow | undefined, journal: ReadonlyArray<JournalRow>) => ReadonlyArray<Decided>
}

/** `input` returns the machine's input, from the row or from the first journalled event. */
export const replayable = <M extends AnyStateMachine, Row extends ActorRow, Own extends string>(
  { kind, machine, machineVersion, table }: Lifecycle<M, Row, Own>,
  input: (row: Row, first: TimedEvent) => InputFrom<M>,
): Replayable => ({
  kind,
  check: (found, journal) => {
    if (found === undefined) return "it has a journal and no row"
    // The row was read from the table of this kind.
    const row = found as Row
    let snapshot = create(machine, input(row, journal[0]!.event))
    for (const [index, entry] of journal.entries()) {
      if (entry.version !== index + 1) return `version ${index + 1} is missing from its journal`
      snapshot = decide(machine, snapshot, entry.event as EventFrom<M>).snapshot
      if (stateName(snapshot) !== entry.to_state) {
        const by = entry.machine_version === machineVersion ? "" : ` by version ${entry.machine_version} of its machine`
        return `version ${entry.version} leads to ${stateName(snapshot)}, the journal says ${entry.to_state}${by}`
      }
    }
    if (row.version !== journal.length) return `its row is at version ${row.version}, its journal at ${journal.length}`
    if (row.state !== stateName(snapshot)) return `its row is in ${row.state}, the replay in ${stateName(snapshot)}`
    const [stored, replayed] = [canonical(table.contextOf(row)), canonical((snapshot as AnyMachineSnapshot).context)]
    return stored === replayed ? undefined : `its row has ${stored}, the replay ${replayed}`
  },
  decideAgain: (found, journal) => {
    if (found === undefined) return []
    let snapshot = create(machine, input(found as Row, journal[0]!.event))
    return journal.map(({ event }): Decided => {
      const decision = decide(machine, snapshot, event as EventFrom<M>)
      snapshot = decision.snapshot
      return {
        to: stateName(snapshot),
        effects: decision.effects.map((effect) => effectName(effect)),
        amount: attemptedIn(decision.effects),
      }
    })
  },
})

/** Replays the journal of the given actors, or of all (of one account), in one snapshot of the database: the service can keep running. */
export const replayJournal = Effect.fn("journal.replay")(function* (
  kinds: ReadonlyArray<Replayable>,
  actors: ReadonlyArray<string>,
  account?: string,
) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(
    Effect.andThen(
      sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY`.unprepared,
      replayAll(kinds, actors, account),
    ),
  )
})

const COLUMNS = "account_id, livemode, actor_id, version, machine_version, actor_kind, event, to_state"

/** The key of an actor's journal: codes of instalment plans are unique within their account only. */
const keyOf = (ref: Tenant, id: string) => `${ref.account_id} ${ref.livemode} ${id}`

/** Reads the journals of these actors by key, for each account. Those of other accounts are left out. */
const readActors = Effect.fnUntraced(function* (actors: ReadonlyArray<string>, account: string | undefined) {
  const sql = yield* SqlClient.SqlClient
  const journals: Array<ReadonlyArray<JournalRow>> = []
  for (const actor of new Set(actors)) {
    const journal = yield* sql<JournalRow>`
      SELECT j.* FROM account a CROSS JOIN unnest(ARRAY[false, true]) l (livemode) CROSS JOIN LATERAL (
        SELECT ${sql.literal(COLUMNS)} FROM lifecycle_journal
        WHERE (account_id, livemode, actor_id) = (a.id, l.livemode, ${actor}) ORDER BY version OFFSET 0
      ) j
      WHERE ${account === undefined ? livesHere(sql, "a", "id") : sql`a.id = ${account}`} ORDER BY j.version`
    journals.push(...Map.groupBy(journal, (entry) => keyOf(entry, actor)).values())
  }
  return journals
})

/** Reads all journals (of one account), each complete, some thousand entries at a time. `check` returns whether to go on. */
const readAll = Effect.fnUntraced(function* <Entry extends JournalRow, E, R>(
  account: string | undefined,
  columns: string,
  check: (journals: ReadonlyArray<ReadonlyArray<Entry>>) => Effect.Effect<boolean, E, R>,
) {
  const sql = yield* SqlClient.SqlClient
  const ofAccount = account === undefined ? livesHere(sql, "lifecycle_journal") : sql`account_id = ${account}`
  let open: Array<Entry> = []
  let cursor = { account_id: "", livemode: false, actor_id: "", version: 0 }
  for (;;) {
    const page = yield* sql<Entry>`
      SELECT ${sql.literal(columns)} FROM lifecycle_journal
      WHERE (account_id, livemode, actor_id, version) > (${cursor.account_id}, ${cursor.livemode}, ${cursor.actor_id}, ${cursor.version}) AND ${ofAccount}
      ORDER BY account_id, livemode, actor_id, version LIMIT ${PAGE}`
    const whole: Array<ReadonlyArray<Entry>> = []
    for (const entry of page) {
      if (open.length > 0 && keyOf(open[0]!, open[0]!.actor_id) !== keyOf(entry, entry.actor_id)) {
        whole.push(open)
        open = []
      }
      open.push(entry)
    }
    const isLast = page.length < PAGE
    if (isLast && open.length > 0) whole.push(open)
    const goesOn = yield* check(whole)
    if (isLast || !goesOn) return
    cursor = page.at(-1)!
  }
})

/** Reads the rows of actors, each with its journal and the replay of its kind. */
const withRows = Effect.fnUntraced(function* <Entry extends JournalRow>(
  kinds: ReadonlyArray<Replayable>,
  journals: ReadonlyArray<ReadonlyArray<Entry>>,
) {
  const sql = yield* SqlClient.SqlClient
  return yield* Effect.map(
    Effect.forEach(kinds, (kind) => {
      const ofKind = journals.filter(([first]) => first!.actor_kind === kind.kind)
      const refs = ofKind.map(([first]) => ({ ...first!, id: first!.actor_id }))
      if (refs.length === 0) return Effect.succeed([])
      const found = sql<ActorRow>`
        SELECT a.* FROM ${rowsAsTable(refs, REF_COLUMNS)} r
        JOIN ${sql(kind.kind)} a ON (a.account_id, a.livemode, a.id) = (r.account_id, r.livemode, r.id)`
      return Effect.map(found, (all) => {
        const rows = new Map(all.map((row) => [keyOf(row, row.id), row]))
        return ofKind.map((journal) => ({ kind, journal, row: rows.get(keyOf(journal[0]!, journal[0]!.actor_id)) }))
      })
    }),
    (all) => all.flat(),
  )
})

const replayAll = Effect.fnUntraced(function* (
  kinds: ReadonlyArray<Replayable>,
  actors: ReadonlyArray<string>,
  account: string | undefined,
) {
  const differing: Array<Difference> = []
  const seen = new Set<string>()
  let replayed = 0
  const check = Effect.fnUntraced(function* (journals: ReadonlyArray<ReadonlyArray<JournalRow>>) {
    for (const { kind, row, journal } of yield* withRows(kinds, journals)) {
      const actor = journal[0]!.actor_id
      replayed++
      if (actors.length > 0) seen.add(actor)
      const reason = kind.check(row, journal)
      if (reason !== undefined) differing.push({ actor, reason })
    }
    return true
  })
  yield* actors.length === 0 ? readAll(account, COLUMNS, check) : Effect.flatMap(readActors(actors, account), check)
  return { replayed, differing, unknown: actors.filter((actor) => !seen.has(actor)) }
})

/** A transition that today's machines decide differently. */
export interface Changed {
  readonly id: string
  readonly version: number
  readonly event: TimedEvent
  readonly recorded: Decided
  readonly now: Decided
}

/** How many changed transitions a proof lists. */
const MAX_CHANGED = 20

/** The first transition of a journal that today's machine decides differently. */
const firstChange = (journal: ReadonlyArray<ProvenRow>, now: ReadonlyArray<Decided>): Changed | undefined => {
  const at = journal.findIndex(
    ({ to_state: to, effects, amount }, index) => canonical({ to, effects, amount }) !== canonical(now[index] ?? null),
  )
  const entry = journal[at]
  if (entry === undefined) return undefined
  const { actor_id: id, version, event, to_state: to, effects, amount } = entry
  return {
    id,
    version,
    event,
    recorded: { to, effects, amount },
    now: now[at] ?? { to: "gone", effects: [], amount: 0 },
  }
}

/** What a transition's charges come to. An actor's charges have its account and environment. */
const AMOUNT = `(SELECT coalesce(sum(c.amount_kobo), 0)::bigint FROM unnest(brought) b (id) CROSS JOIN LATERAL (
  SELECT amount_kobo FROM charge WHERE (account_id, livemode, id) = (lifecycle_journal.account_id, lifecycle_journal.livemode, b.id) OFFSET 0
) c) AS amount`

const totalOf = (all: ReadonlyArray<{ readonly amount: number }>): number =>
  all.reduce((sum, { amount }) => sum + amount, 0)

const proveAll = Effect.fnUntraced(function* (
  kinds: ReadonlyArray<Replayable>,
  { account, limit = Number.POSITIVE_INFINITY }: ProofOptions,
) {
  const first: Array<Changed> = []
  let [replayed, differ, difference] = [0, 0, 0]
  const prove = Effect.fnUntraced(function* (journals: ReadonlyArray<ReadonlyArray<ProvenRow>>) {
    for (const { kind, row, journal } of yield* withRows(kinds, journals.slice(0, Math.max(0, limit - replayed)))) {
      replayed++
      const now = kind.decideAgain(row, journal)
      const changed = firstChange(journal, now)
      if (changed === undefined) continue
      differ++
      difference += totalOf(now) - totalOf(journal)
      if (first.length < MAX_CHANGED) first.push(changed)
    }
    return replayed < limit
  })
  yield* readAll<ProvenRow, SqlError.SqlError, SqlClient.SqlClient>(account, `${COLUMNS}, effects, ${AMOUNT}`, prove)
  return { replayed, same: replayed - differ, differ, amount_difference: difference, first }
})

export interface ProofOptions {
  readonly account?: string
  /** The most journals to replay. */
  readonly limit?: number
}

/**
 * Decides every journalled event again on the machines of this checkout, and compares what they do with what was recorded: states, effects,
 * and the amounts of charges. `amount_difference`: how much more (kobo) today's machines would have charged (decision S5).
 */
export const proveJournal = Effect.fn("journal.prove")(function* (
  kinds: ReadonlyArray<Replayable>,
  options: ProofOptions = {},
) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(
    Effect.andThen(sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY`.unprepared, proveAll(kinds, options)),
  )
})
