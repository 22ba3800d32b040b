/**
 * The state of an account's move, as stored on both sides in `account_move`:
 *
 *   source: copying ──▶ fenced ──────────────▶ left ──▶ (no row: the account's rows are in account_kept)
 *   target: arriving ────────────▶ opened ────────────▶ (no row)
 *
 * The account lives at its source until its row at the target is `opened`; from then on it lives at the target. While it is
 * fenced and not opened, no write is accepted. A source reopens only after the target's row is `withdrawn`, never after `opened`.
 *
 * Each step names the row version it depends on. If two movers decide differently (one may have lost its lock), one of them fails:
 * an account opens only for the same arrival (`started_at`), and a source reopens only the same fence (`fenced_at`).
 * A withdrawn arrival starts again only after its source has reopened.
 */
import { randomBytes } from "node:crypto"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Cell } from "../base/cell.ts"
import { asReplica } from "./asReplica.ts"
import { cellProblem } from "./CellProblem.ts"
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
  /** `started_at` and `fenced_at` as text, to the microsecond: they identify the arrival and the fence. */
  readonly arrival: string
  readonly fence: string | null
}

/** The states of a move at its source. */
const LEAVING: ReadonlyArray<State> = ["copying", "fenced", "left"]

export const isLeaving = ({ state }: MoveRow): boolean => LEAVING.includes(state)

const COLUMNS = "*, started_at::text AS arrival, fenced_at::text AS fence"

export const readMove = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<MoveRow>`
    SELECT ${sql.literal(COLUMNS)} FROM account_move WHERE account_id = ${account}`
  return row
})

const changedByOther = (account: string) => cellProblem(`Another process has changed the move of ${account} meanwhile.`)

/**
 * Reads and locks the move's row on this side. Fails unless it is in one of these states: another process may have finished or abandoned
 * the move. The lock lasts until the running transaction ends, if there is one.
 */
export const requireState = Effect.fnUntraced(function* ({ account_id, move_id }: Move, states: ReadonlyArray<State>) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<MoveRow>`
    SELECT ${sql.literal(COLUMNS)} FROM account_move
    WHERE account_id = ${account_id} AND move_id = ${move_id} AND state = ANY(${states}::text[]) FOR SHARE`
  return row ?? (yield* changedByOther(account_id))
})

const noteState = Effect.fnUntraced(function* (account: string, moveId: string, state: State, cell: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO account_move (account_id, move_id, state, cell) VALUES (${account}, ${moveId}, ${state}, ${cell})
    ON CONFLICT (account_id) DO UPDATE SET state = excluded.state, started_at = excluded.started_at
      WHERE account_move.state = 'withdrawn' AND account_move.move_id = excluded.move_id`
})

export const notDoneThere = (account: string) =>
  cellProblem(`The other cell has not finished its move of ${account}: finish the move there first.`)

/**
 * Stores on both sides that the account is moving, and enables the fences: the source's refuses nothing until `fence`. Returns both
 * rows. A target that has finished has no row.
 */
export const begin = Effect.fnUntraced(function* (account: string, cell: string, sides: Sides) {
  const { at, tables } = sides
  yield* at("source", noteState(account, `move_${randomBytes(8).toString("hex")}`, "copying", cell))
  const found = (yield* at("source", readMove(account)))!
  if (found.cell !== cell) return yield* cellProblem(`${account} is on its way to the cell ${found.cell} already.`)
  const before = yield* at("target", readMove(account))
  // An abandon was started: the source must reopen before the account arrives again.
  if (before?.state === "withdrawn") yield* reopenSource(found, sides)
  if (found.state !== "left") yield* at("target", noteState(account, found.move_id, "arriving", yield* Cell))
  const there = yield* at("target", readMove(account))
  if (there !== undefined && there.move_id !== found.move_id) return yield* notDoneThere(account)
  yield* at("source", switchFence(tables))
  yield* at("target", switchFence(tables))
  return { here: (yield* at("source", readMove(account)))!, there }
})

/** Whether a leaving account already lives at the target. */
export const hasOpened = (here: MoveRow, there: MoveRow | undefined): boolean =>
  here.state === "left" || there?.state === "opened"

/** Reopens the source, unless the account already lives at the target. Returns whether it reopened. */
export const reopenSource = Effect.fnUntraced(function* ({ account_id, move_id }: Move, { at }: Sides) {
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

/** Opens the account at the target: from this commit on it lives there. `from`: the cell that it leaves. */
export const open = Effect.fnUntraced(function* ({ account_id: account, arrival }: MoveRow, from: string) {
  const sql = yield* SqlClient.SqlClient
  yield* asReplica(
    Effect.gen(function* () {
      const opened = yield* sql`
        UPDATE account_move SET state = 'opened'
        WHERE account_id = ${account} AND state = 'arriving' AND started_at = ${arrival}::timestamptz RETURNING 1`
      if (opened.length === 0) return yield* changedByOther(account)
      yield* sql`
        UPDATE account SET cells = array_append(array_remove(cells, ${from}), ${from}) WHERE id = ${account}`
      yield* sql`DELETE FROM account_mark WHERE account_id = ${account}`
    }),
  )
})

/** At the source: stores the number of rows, the same on both sides. */
export const noteRows = Effect.fnUntraced(function* ({ account_id, move_id }: Move, rows: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`UPDATE account_move SET rows = ${rows} WHERE account_id = ${account_id} AND move_id = ${move_id}`
})

/** At the source: notes that the account has left. */
export const leave = Effect.fnUntraced(function* ({ account_id, move_id }: Move) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE account_move SET state = 'left', left_at = clock_timestamp()
    WHERE account_id = ${account_id} AND move_id = ${move_id} AND state = 'fenced'`
  // Its keys are invalid here from now on.
  yield* sql`SELECT pg_notify('api_key_changed', ${account_id})`
})

/** Deletes this side's row of a move that is in this state. */
export const forget = Effect.fnUntraced(function* ({ account_id, move_id }: Move, state: State) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`DELETE FROM account_move WHERE account_id = ${account_id} AND move_id = ${move_id} AND state = ${state}`
})
