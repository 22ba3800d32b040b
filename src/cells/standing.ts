/**
 * How far the move of an account is, as both sides have it in `account_move`:
 *
 *   source: copying ──▶ fenced ──────────────▶ left ──▶ (nothing: its rows are kept aside)
 *   target: arriving ────────────▶ opened ────────────▶ (nothing)
 *
 * The account lives at its source until its row at the target says `opened`; from then on it lives there. In between nobody
 * writes it. A source that goes on after all does so once the target's row says `withdrawn`, and not where it says `opened`.
 *
 * Each step names what it rests on, so that of two movers which decide otherwise, one that had lost its lock among them, one is
 * refused: an account is opened for the very arrival that was begun (`started_at`), and a source goes on from the very fence that
 * was looked at (`fenced_at`). An arrival that was withdrawn begins again only once its source has gone on.
 */
import { randomBytes } from "node:crypto"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Cell } from "../base/cell.ts"
import { asReplica } from "./asReplica.ts"
import { apart } from "./CellsApart.ts"
import { reopen, switchFence } from "./fence.ts"
import type { Move } from "./replication.ts"
import type { Sides } from "./sides.ts"

export type State = "copying" | "fenced" | "left" | "arriving" | "withdrawn" | "opened"

export interface MoveRow extends Move {
  readonly state: State
  /** The other cell. */
  readonly cell: string
  readonly fenced_at: number | null
  readonly left_at: number | null
  readonly rows: number | null
  /** To the microsecond, as text: which arrival, and which fence, it is. */
  readonly arrival: string
  readonly fence: string | null
}

/** The states of an account at its source. */
const LEAVING: ReadonlyArray<State> = ["copying", "fenced", "left"]

export const isLeaving = ({ state }: MoveRow): boolean => LEAVING.includes(state)

const COLUMNS = "*, started_at::text AS arrival, fenced_at::text AS fence"

export const readMove = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<MoveRow>`
    SELECT ${sql.literal(COLUMNS)} FROM account_move WHERE account_id = ${account}`
  return row
})

const decidedOtherwise = (account: string) => apart(`Somebody else has decided otherwise about ${account} meanwhile.`)

/**
 * The move as this side has it; fails unless it is in one of these states: somebody else may have finished it, or given it up, and the account may
 * have come back since. Nobody can until the running transaction ends, if there is one.
 */
export const requireStanding = Effect.fnUntraced(function* (
  { account_id, move_id }: Move,
  states: ReadonlyArray<State>,
) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<MoveRow>`
    SELECT ${sql.literal(COLUMNS)} FROM account_move
    WHERE account_id = ${account_id} AND move_id = ${move_id} AND state = ANY(${states}::text[]) FOR SHARE`
  return row ?? (yield* decidedOtherwise(account_id))
})

const note = Effect.fnUntraced(function* (account: string, moveId: string, state: State, cell: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO account_move (account_id, move_id, state, cell) VALUES (${account}, ${moveId}, ${state}, ${cell})
    ON CONFLICT (account_id) DO UPDATE SET state = excluded.state, started_at = excluded.started_at
      WHERE account_move.state = 'withdrawn' AND account_move.move_id = excluded.move_id`
})

export const notDoneThere = (account: string) =>
  apart(`The other cell is not done with ${account} yet: finish the move there first.`)

/**
 * Notes at both sides that the account is moving, and puts up the fences: the source's is open until it is closed. Returns the
 * rows of both; a target that is done has none.
 */
export const begin = Effect.fnUntraced(function* (account: string, cell: string, sides: Sides) {
  const { at, tables } = sides
  yield* at("source", note(account, `move_${randomBytes(8).toString("hex")}`, "copying", cell))
  const found = (yield* at("source", readMove(account)))!
  if (found.cell !== cell) return yield* apart(`${account} is on its way to the cell ${found.cell} already.`)
  const before = yield* at("target", readMove(account))
  // Somebody began to give it up: its source goes on before it arrives again.
  if (before?.state === "withdrawn") yield* takeBack(found, sides)
  if (found.state !== "left") yield* at("target", note(account, found.move_id, "arriving", yield* Cell))
  const there = yield* at("target", readMove(account))
  if (there !== undefined && there.move_id !== found.move_id) return yield* notDoneThere(account)
  yield* at("source", switchFence(tables))
  yield* at("target", switchFence(tables))
  return { here: (yield* at("source", readMove(account)))!, there }
})

/** Whether an account that is leaving has begun to live at the target. */
export const hasOpened = (here: MoveRow, there: MoveRow | undefined): boolean =>
  here.state === "left" || there?.state === "opened"

/** Lets the source go on, unless the account has begun to live at the target; returns whether it does. */
export const takeBack = Effect.fnUntraced(function* ({ account_id, move_id }: Move, { at }: Sides) {
  const here = yield* at("source", readMove(account_id))
  const withdraw = Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      UPDATE account_move SET state = 'withdrawn'
      WHERE account_id = ${account_id} AND move_id = ${move_id} AND state IN ('arriving', 'withdrawn') RETURNING 1`,
  )
  const withdrawn = yield* at("target", withdraw)
  if (withdrawn.length === 0) return false
  if (here?.state === "fenced") yield* at("source", reopen(account_id, here.fence!))
  return true
})

/** The moment from which on the account lives at the target. `from`: the cell that it leaves. */
export const open = Effect.fnUntraced(function* ({ account_id: account, arrival }: MoveRow, from: string) {
  const sql = yield* SqlClient.SqlClient
  yield* asReplica(
    Effect.gen(function* () {
      const opened = yield* sql`
        UPDATE account_move SET state = 'opened'
        WHERE account_id = ${account} AND state = 'arriving' AND started_at = ${arrival}::timestamptz RETURNING 1`
      if (opened.length === 0) return yield* decidedOtherwise(account)
      // What nobody is working on any more has done nothing: whoever asks again begins anew.
      yield* sql`
        DELETE FROM idempotency_record WHERE account_id = ${account} AND response_status IS NULL AND resource_id IS NULL`
      yield* sql`
        UPDATE account SET cells = array_append(array_remove(cells, ${from}), ${from}) WHERE id = ${account}`
      yield* sql`DELETE FROM account_mark WHERE account_id = ${account}`
    }),
  )
})

/** At the source: how many rows both sides had. */
export const noteRows = Effect.fnUntraced(function* ({ account_id, move_id }: Move, rows: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`UPDATE account_move SET rows = ${rows} WHERE account_id = ${account_id} AND move_id = ${move_id}`
})

/** At the source: the account lives elsewhere. */
export const leave = Effect.fnUntraced(function* ({ account_id, move_id }: Move) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE account_move SET state = 'left', left_at = clock_timestamp()
    WHERE account_id = ${account_id} AND move_id = ${move_id} AND state = 'fenced'`
  // Its keys are unknown here from now on.
  yield* sql`SELECT pg_notify('api_key_changed', ${account_id})`
})

/** This side is done with a move that it has in this state. */
export const forget = Effect.fnUntraced(function* ({ account_id, move_id }: Move, state: State) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`DELETE FROM account_move WHERE account_id = ${account_id} AND move_id = ${move_id} AND state = ${state}`
})
