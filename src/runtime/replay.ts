/** Proves the journal: replaying it through the machines must give the current rows. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { AnyMachineSnapshot, AnyStateMachine, EventFrom, InputFrom } from "xstate"
import { create, decide, stateName, type TimedEvent } from "../../machines/decide.ts"
import { canonical } from "../base/json.ts"
import { REF_COLUMNS, rowsAsTable } from "../db/rows.ts"
import { livesHere, type Tenant } from "../db/tenant.ts"
import type { ActorKind, ActorRow, Lifecycle } from "./lifecycle.ts"

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

interface Difference {
  readonly actor: string
  readonly reason: string
}

/** The replay of one kind of actor: a closure over the types of its machine and its rows. */
export interface Replayable {
  readonly kind: ActorKind
  /** Returns what is wrong with one actor's journal, or undefined. */
  readonly check: (row: ActorRow | undefined, journal: ReadonlyArray<JournalRow>) => string | undefined
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

/** Reads all journals (of one account), each complete, some thousand entries at a time. */
const readAll = Effect.fnUntraced(function* <E, R>(
  account: string | undefined,
  check: (journals: ReadonlyArray<ReadonlyArray<JournalRow>>) => Effect.Effect<void, E, R>,
) {
  const sql = yield* SqlClient.SqlClient
  const ofAccount = account === undefined ? livesHere(sql, "lifecycle_journal") : sql`account_id = ${account}`
  let open: Array<JournalRow> = []
  let cursor = { account_id: "", livemode: false, actor_id: "", version: 0 }
  for (;;) {
    const page = yield* sql<JournalRow>`
      SELECT ${sql.literal(COLUMNS)} FROM lifecycle_journal
      WHERE (account_id, livemode, actor_id, version) > (${cursor.account_id}, ${cursor.livemode}, ${cursor.actor_id}, ${cursor.version}) AND ${ofAccount}
      ORDER BY account_id, livemode, actor_id, version LIMIT ${PAGE}`
    const whole: Array<ReadonlyArray<JournalRow>> = []
    for (const entry of page) {
      if (open.length > 0 && keyOf(open[0]!, open[0]!.actor_id) !== keyOf(entry, entry.actor_id)) {
        whole.push(open)
        open = []
      }
      open.push(entry)
    }
    const isLast = page.length < PAGE
    if (isLast && open.length > 0) whole.push(open)
    yield* check(whole)
    if (isLast) return
    cursor = page.at(-1)!
  }
})

const replayAll = Effect.fnUntraced(function* (
  kinds: ReadonlyArray<Replayable>,
  actors: ReadonlyArray<string>,
  account: string | undefined,
) {
  const sql = yield* SqlClient.SqlClient
  const differing: Array<Difference> = []
  const seen = new Set<string>()
  let replayed = 0
  const check = Effect.fnUntraced(function* (journals: ReadonlyArray<ReadonlyArray<JournalRow>>) {
    for (const { kind, check } of kinds) {
      const ofKind = journals.filter(([first]) => first!.actor_kind === kind)
      const refs = ofKind.map(([first]) => ({ ...first!, id: first!.actor_id }))
      if (refs.length === 0) continue
      const found = yield* sql<ActorRow>`
        SELECT a.* FROM ${rowsAsTable(refs, REF_COLUMNS)} r
        JOIN ${sql(kind)} a ON (a.account_id, a.livemode, a.id) = (r.account_id, r.livemode, r.id)`
      const rows = new Map(found.map((row) => [keyOf(row, row.id), row]))
      for (const journal of ofKind) {
        const actor = journal[0]!.actor_id
        replayed++
        if (actors.length > 0) seen.add(actor)
        const reason = check(rows.get(keyOf(journal[0]!, actor)), journal)
        if (reason !== undefined) differing.push({ actor, reason })
      }
    }
  })
  yield* actors.length === 0 ? readAll(account, check) : Effect.flatMap(readActors(actors, account), check)
  return { replayed, differing, unknown: actors.filter((actor) => !seen.has(actor)) }
})
