/** Proving the journal: the machines run over it again and must arrive at the rows. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { AnyMachineSnapshot, AnyStateMachine, EventFrom, InputFrom } from "xstate"
import { create, decide, stateName, type TimedEvent } from "../../machines/decide.ts"
import { REF_COLUMNS, records } from "../db/records.ts"
import { livesHere } from "../db/tenant.ts"
import { canonical } from "../json.ts"
import type { ActorKind, ActorRow, Lifecycle } from "./lifecycle.ts"

/** Journal rows read at a time: a few megabytes. */
const PAGE = 5_000

interface JournalRow {
  readonly account_id: string
  readonly livemode: boolean
  readonly actor_id: string
  readonly version: number
  readonly actor_kind: ActorKind
  readonly event: TimedEvent
  readonly to_state: string
}

interface Difference {
  readonly actor: string
  readonly reason: string
}

/** How a kind of actor is replayed: it closes over the types of its machine and of its rows. */
export interface Replayable {
  readonly kind: ActorKind
  /** What is wrong with one actor's journal, or undefined. */
  readonly check: (row: ActorRow | undefined, journal: ReadonlyArray<JournalRow>) => string | undefined
}

/** `input` is what the machine began with, from the row or from the first journalled event. */
export const replayable = <M extends AnyStateMachine, Row extends ActorRow, Own extends string>(
  { kind, machine, table }: Lifecycle<M, Row, Own>,
  input: (row: Row, first: TimedEvent) => InputFrom<M>,
): Replayable => ({
  kind,
  check: (found, journal) => {
    if (found === undefined) return "it has a journal and no row"
    // Read from the table of this kind.
    const row = found as Row
    let snapshot = create(machine, input(row, journal[0]!.event))
    for (const [index, entry] of journal.entries()) {
      if (entry.version !== index + 1) return `version ${index + 1} is missing from its journal`
      // What the machine took once it takes again; of an event that it does not know it makes nothing.
      snapshot = decide(machine, snapshot, entry.event as EventFrom<M>).snapshot
      if (stateName(snapshot) !== entry.to_state)
        return `version ${entry.version} leads to ${stateName(snapshot)}, the journal says ${entry.to_state}`
    }
    if (row.version !== journal.length) return `its row is at version ${row.version}, its journal at ${journal.length}`
    if (row.state !== stateName(snapshot)) return `its row is in ${row.state}, the replay in ${stateName(snapshot)}`
    const [kept, replayed] = [canonical(table.contextOf(row)), canonical((snapshot as AnyMachineSnapshot).context)]
    return kept === replayed ? undefined : `its row has ${kept}, the replay ${replayed}`
  },
})

/** Replays the journal of the given actors, or of all (of one account), as everything stands at one moment: the service may go on beside. */
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

const replayAll = Effect.fnUntraced(function* (
  kinds: ReadonlyArray<Replayable>,
  actors: ReadonlyArray<string>,
  account: string | undefined,
) {
  const sql = yield* SqlClient.SqlClient
  const ofAccount = account === undefined ? livesHere(sql, "lifecycle_journal") : sql`account_id = ${account}`
  const only = actors.length === 0 ? ofAccount : sql`actor_id = ANY(${actors}::text[]) AND ${ofAccount}`
  const differing: Array<Difference> = []
  const seen = new Set<string>()
  let replayed = 0

  const check = Effect.fnUntraced(function* (journals: ReadonlyArray<ReadonlyArray<JournalRow>>) {
    for (const { kind, check } of kinds) {
      const its = journals.filter(([first]) => first!.actor_kind === kind)
      const refs = its.map(([first]) => ({ ...first!, id: first!.actor_id }))
      if (refs.length === 0) continue
      const found = yield* sql<ActorRow>`
        SELECT a.* FROM ${records(refs, REF_COLUMNS)} r
        JOIN ${sql(kind)} a ON (a.account_id, a.livemode, a.id) = (r.account_id, r.livemode, r.id)`
      const rows = new Map(found.map((row) => [row.id, row]))
      for (const journal of its) {
        const actor = journal[0]!.actor_id
        replayed++
        if (actors.length > 0) seen.add(actor)
        const reason = check(rows.get(actor), journal)
        if (reason !== undefined) differing.push({ actor, reason })
      }
    }
  })

  let open: Array<JournalRow> = []
  let cursor = { account_id: "", livemode: false, actor_id: "", version: 0 }
  for (;;) {
    const page = yield* sql<JournalRow>`
      SELECT account_id, livemode, actor_id, version, actor_kind, event, to_state FROM lifecycle_journal
      WHERE (account_id, livemode, actor_id, version) > (${cursor.account_id}, ${cursor.livemode}, ${cursor.actor_id}, ${cursor.version}) AND ${only}
      ORDER BY account_id, livemode, actor_id, version LIMIT ${PAGE}`
    const whole: Array<ReadonlyArray<JournalRow>> = []
    for (const entry of page) {
      if (open.length > 0 && open[0]!.actor_id !== entry.actor_id) {
        whole.push(open)
        open = []
      }
      open.push(entry)
    }
    const last = page.at(-1)
    if (last === undefined || page.length < PAGE) {
      if (open.length > 0) whole.push(open)
      yield* check(whole)
      return { replayed, differing, unknown: actors.filter((actor) => !seen.has(actor)) }
    }
    yield* check(whole)
    cursor = last
  }
})
