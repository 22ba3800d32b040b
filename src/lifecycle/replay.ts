/** Proving the journal: the machines run over it again and must arrive at the rows. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { AnyMachineSnapshot, AnyStateMachine } from "xstate"
import { initialTransition } from "xstate"
import { decide, stateName, type TimedEvent } from "../../machines/decide.ts"
import { canonical } from "../canonical.ts"
import { REF_COLUMNS, records } from "../db/records.ts"
import type { ActorKind, ActorRow, Lifecycle } from "./advance.ts"

/** Journal rows read at a time: a few megabytes. */
const PAGE = 5_000

/** How a kind of actor is replayed: its lifecycle, its rows, and what its machine began with. */
export interface Replayable<M extends AnyStateMachine = AnyStateMachine, Row extends ActorRow = ActorRow> {
  readonly lifecycle: Lifecycle<M, Row>
  /** The input of the machine, from the first journalled event or from the row. */
  readonly input: (row: Row, first: TimedEvent) => object
}

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

/** What is wrong with one actor's journal, or undefined. */
const replayOne = (
  replayable: Replayable,
  row: ActorRow | undefined,
  journal: ReadonlyArray<JournalRow>,
): string | undefined => {
  if (row === undefined) return "it has a journal and no row"
  const { lifecycle, input } = replayable
  // Any machine's snapshot: which machine it is, the journal's rows say.
  let [snapshot] = initialTransition(lifecycle.machine, input(row, journal[0]!.event) as never) as unknown as [
    AnyMachineSnapshot,
  ]
  for (const [index, entry] of journal.entries()) {
    if (entry.version !== index + 1) return `version ${index + 1} is missing from its journal`
    snapshot = decide(lifecycle.machine, snapshot as never, entry.event).snapshot as unknown as AnyMachineSnapshot
    if (stateName(snapshot) !== entry.to_state)
      return `version ${entry.version} leads to ${stateName(snapshot)}, the journal says ${entry.to_state}`
  }
  if (row.version !== journal.length) return `its row is at version ${row.version}, its journal at ${journal.length}`
  if (row.state !== stateName(snapshot)) return `its row is in ${row.state}, the replay in ${stateName(snapshot)}`
  const [kept, replayed] = [canonical(lifecycle.contextOf(row)), canonical(snapshot.context)]
  return kept === replayed ? undefined : `its row has ${kept}, the replay ${replayed}`
}

/** Replays the journal of the given actors, or of all, as everything stands at one moment: the service may go on beside. */
export const replayJournal = (kinds: ReadonlyMap<ActorKind, Replayable>, actors: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql.withTransaction(
      Effect.andThen(
        sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY`.unprepared,
        replayAll(kinds, actors),
      ),
    )
  })

const replayAll = (kinds: ReadonlyMap<ActorKind, Replayable>, actors: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const only = actors.length === 0 ? sql`true` : sql`actor_id = ANY(${actors}::text[])`
    const differing: Array<Difference> = []
    const seen = new Set<string>()
    let replayed = 0

    const judge = (journals: ReadonlyArray<ReadonlyArray<JournalRow>>) =>
      Effect.gen(function* () {
        const rows = new Map<string, ActorRow>()
        for (const [kind] of kinds) {
          const refs = journals
            .map(([first]) => first!)
            .filter(({ actor_kind }) => actor_kind === kind)
            .map(({ account_id, livemode, actor_id: id }) => ({ account_id, livemode, id }))
          if (refs.length === 0) continue
          const found = yield* sql<ActorRow>`
            SELECT a.* FROM ${records(sql, refs, REF_COLUMNS)} r
            JOIN ${sql(kind)} a ON (a.account_id, a.livemode, a.id) = (r.account_id, r.livemode, r.id)`
          for (const row of found) rows.set(row.id, row)
        }
        for (const journal of journals) {
          const first = journal[0]!
          replayed++
          if (actors.length > 0) seen.add(first.actor_id)
          const reason = replayOne(kinds.get(first.actor_kind)!, rows.get(first.actor_id), journal)
          if (reason !== undefined) differing.push({ actor: first.actor_id, reason })
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
        yield* judge(whole)
        return { replayed, differing, unknown: actors.filter((actor) => !seen.has(actor)) }
      }
      yield* judge(whole)
      cursor = last
    }
  })
