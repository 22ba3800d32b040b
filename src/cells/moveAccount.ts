/**
 * Moves an account to another cell (docs/scaling.md). Both sides store the state of the move (moveState.ts), so a new run after a
 * crash continues from that state.
 */
import { Effect, type Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { Cell } from "../base/cell.ts"
import { SERVICE_ACCOUNT } from "../ledger/chart.ts"
import { LOCKS } from "../postgres/advisoryLocks.ts"
import type { Replayable } from "../runtime/replay.ts"
import { TIMERS_DUE } from "../runtime/Wakeups.ts"
import { type CellProblem, cellProblem } from "./CellProblem.ts"
import { compare, prove, requireAlike, requireJoined } from "./compare.ts"
import { fence, switchFence } from "./fence.ts"
import { readIdentity } from "./identity.ts"
import {
  begin,
  forget,
  hasOpened,
  isLeaving,
  leave,
  type MoveRow,
  notDoneThere,
  noteRows,
  open,
  readMove,
  reopenSource,
  requireState,
} from "./moveState.ts"
import { clear, putAside } from "./putAside.ts"
import {
  catchUp,
  copied,
  detach,
  type Move,
  publish,
  reached,
  subscribe,
  subscriptionOf,
  unpublish,
  unsubscribe,
} from "./replication.ts"
import { routesOf } from "./routes.ts"
import { type Databases, type Sides, sidesOf } from "./sides.ts"
import { analyse, type MovedTable } from "./tables.ts"

/** How often a running deletion is polled. */
const DELETION_POLL_MS = 200
/** The largest replication lag at which the account is fenced. Callers wait for this lag. */
const MAX_LAG_MS = 300
/** How often the lag is measured before the account is fenced anyway. */
const MAX_LAG_CHECKS = 100
/** How long the target may take to catch up after the fence. */
const CATCH_UP_LIMIT_MS = 30_000

/** The steps in order. After a crash the next run repeats the step that was not finished. */
export const STEPS = ["copying", "proving", "fencing", "fenced", "compared", "opened", "left", "put aside"] as const
export type Step = (typeof STEPS)[number]

/** Routes these keys to their cells in the proxies (haproxy.ts). With no entries it only checks that each proxy answers. */
export type Route = (entries: ReadonlyArray<readonly [key: string, cell: string]>) => Effect.Effect<void, CellProblem>

export interface MoveOptions extends Databases {
  readonly account: string
  /** The URL by which the target's Postgres reaches the source's database. */
  readonly from: Redacted.Redacted<string>
  readonly replayables: ReadonlyArray<Replayable>
  readonly route: Route
  /** Called at each step, to report progress. */
  readonly progress: (step: Step) => Effect.Effect<void>
}

/** The move's row on each side. */
interface MoveRows {
  readonly here: MoveRow
  readonly there: MoveRow | undefined
}

const MARKS: MovedTable = { name: "account_mark", owner: "account_id", key: [], versioned: false }

const accountExists = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql`SELECT 1 FROM account WHERE id = ${account}`
  return rows.length > 0
})

/** Reads the sequences that order an account's rows, with their last values. */
const readSequences = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ name: string; last: number | null }>`
    SELECT sequencename::text AS name, last_value AS last FROM pg_sequences WHERE schemaname = 'public' ORDER BY 1`
})

/** Values that the source may still draw while the target's sequence is set. */
const SEQUENCE_MARGIN = 1_000_000

/** Advances the target's sequences past the source's, so that new rows sort after the copied ones. */
const advanceSequences = Effect.fnUntraced(function* (sequences: Effect.Success<typeof readSequences>) {
  const sql = yield* SqlClient.SqlClient
  for (const { name, last } of sequences)
    yield* sql`
      SELECT setval(${`public.${name}`}::regclass, ${last ?? 0}::bigint + ${SEQUENCE_MARGIN}::bigint) FROM pg_sequences
      WHERE schemaname = 'public' AND sequencename = ${name} AND coalesce(last_value, 0) <= ${last ?? 0}::bigint`
})

/** Wakes the target's workers for due timers. They find all other work within seconds by polling. */
const wake = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    SELECT add_wakeups(${TIMERS_DUE}, ARRAY(
      SELECT DISTINCT greatest(date_trunc('second', due_at) + interval '1 second', date_trunc('second', now())) FROM timer
      WHERE account_id = ${account} AND test_clock_id IS NULL AND due_at < now() + interval '2 minutes' LIMIT 1000))`
})

/** Reads whether a sandbox reset or a test clock deletion of the account is running. */
const isDeleting = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql`SELECT 1 FROM deletion WHERE account_id = ${account} LIMIT 1`
  return rows.length > 0
})

/** Checks the copy at the target. Waits for running deletions first: a half-deleted object would fail the check. */
const proveCopy = Effect.fnUntraced(function* (
  { account, target, replayables }: MoveOptions,
  here: MoveRow,
  { at }: Sides,
) {
  const deleting = at("source", isDeleting(account))
  const checked = Effect.gen(function* () {
    yield* Effect.repeat(deleting, { while: (isRunning) => isRunning, schedule: Schedule.spaced(DELETION_POLL_MS) })
    yield* at("source", catchUp(here, target))
    yield* at("target", prove(account, replayables))
  })
  // A deletion that started meanwhile may have caused the difference.
  yield* Effect.retry(checked, { while: () => deleting })
})

/** Copies until the target is close behind, checks the copy, fences the account, and opens it at the target. */
const handOver = Effect.fnUntraced(function* (options: MoveOptions, { here, there }: MoveRows, sides: Sides) {
  const { account, target, from, progress } = options
  const { at, tables } = sides
  yield* progress("copying")
  const isCopying = (yield* at("target", subscriptionOf(here))) !== undefined
  // An abandoned move may have left rows at the target.
  if (!isCopying) yield* at("target", clear([...tables, MARKS], here, "arriving"))
  yield* at("source", publish(here, tables, isCopying))
  yield* at("target", subscribe(here, from))
  yield* at("source", reached(here))
  yield* at("target", copied(here))
  if (here.state === "copying") {
    yield* progress("proving")
    yield* at("target", analyse(tables))
    yield* proveCopy(options, here, sides)
    for (let check = 0; check < MAX_LAG_CHECKS && (yield* at("source", catchUp(here, target))) > MAX_LAG_MS; check++) {}
    yield* progress("fencing")
    yield* at("source", fence(here))
    yield* at("source", requireState(here, ["fenced"]))
  }
  yield* progress("fenced")
  yield* Effect.timeoutOrElse(at("source", catchUp(here, target)), {
    duration: CATCH_UP_LIMIT_MS,
    orElse: () => Effect.fail(cellProblem("The target does not catch up: see the log of its Postgres.")),
  })
  yield* requireAlike(sides)
  const rows = yield* compare(account, sides)
  yield* at("source", noteRows(here, rows))
  yield* at("target", advanceSequences(yield* at("source", readSequences)))
  yield* progress("compared")
  yield* at("target", open(there!, yield* Cell))
})

/** Locks the account against other movers until the scope closes. Fails if another process is moving it. */
const lockAgainstMovers = Effect.fnUntraced(function* (account: string, source: SqlClient.SqlClient) {
  const connection = yield* source.reserve
  const lock = `SELECT pg_try_advisory_lock(${LOCKS.mover}, hashtext($1)) AS taken`
  const [row] = yield* connection.execute(lock, [account], undefined)
  if (row.taken !== true) return yield* cellProblem(`Another process is moving ${account} now.`)
})

/** Ends the copying. Each side drops its part as soon as the other side no longer needs it. */
const endCopying = Effect.fnUntraced(function* (move: Move, { at }: Sides) {
  const subscription = yield* at("target", detach(move))
  yield* at("source", unpublish(move, subscription))
  yield* at("target", unsubscribe(move))
})

/** Disables the fences, unless another account is moving. */
const putFencesAway = Effect.fnUntraced(function* ({ at, tables }: Sides) {
  yield* at("target", switchFence(tables))
  yield* at("source", switchFence(tables))
})

/**
 * Moves an account. Returns its number of rows and for how long its writes were refused (ms). If the move fails before the account
 * opens at the target, the source accepts its writes again.
 */
export const moveAccount = Effect.fn("account.move")(function* (options: MoveOptions) {
  const { account, source, route, progress } = options
  if (account === SERVICE_ACCOUNT)
    return yield* cellProblem(`${account} is the service's own account: each cell has one, and it does not move.`)
  yield* lockAgainstMovers(account, source)
  const sides = yield* sidesOf(options)
  const { at, tables } = sides
  const cell = yield* requireJoined(sides)
  const current = yield* at("source", readMove(account))
  if (current !== undefined && !isLeaving(current))
    return yield* cellProblem(
      `${account} is on its way to this cell: finish that move first, from the cell ${current.cell}.`,
    )
  // Checks the proxies early: once the account has opened at the target, they must be able to switch.
  if (current?.state !== "left") yield* route([])
  if (current === undefined || current.state === "copying") {
    if (!(yield* at("source", accountExists(account)))) return yield* cellProblem(`No such account: ${account}.`)
    if (current === undefined && (yield* at("target", accountExists(account)))) return yield* notDoneThere(account)
    yield* requireAlike(sides)
  }
  const started = yield* begin(account, cell, sides)
  const { here } = started
  if (!hasOpened(here, started.there))
    yield* handOver(options, started, sides).pipe(
      Effect.onError(() =>
        Effect.catchCause(reopenSource(here, sides), (cause) =>
          Effect.logError(
            "cannot read from the target whether the account has opened there: its writes may be refused until this command runs again, also with --abandon",
            { account },
            cause,
          ),
        ),
      ),
    )
  yield* progress("opened")
  if (here.state !== "left") {
    yield* at("target", wake(account))
    const entries = (yield* at("target", routesOf(account, cell))).map((key) => [key, cell] as const)
    // A mover that was paused while the move went further must not route callers to the old cell.
    yield* at("source", requireState(here, ["fenced", "left"]))
    yield* route(entries)
    yield* at("source", leave(here))
  }
  yield* progress("left")
  yield* endCopying(here, sides)
  const leftRow = yield* at("source", requireState(here, ["left"]))
  yield* at("source", putAside([...tables, MARKS], here))
  yield* progress("put aside")
  yield* at("target", forget(here, "opened"))
  yield* at("source", forget(here, "left"))
  yield* putFencesAway(sides)
  return { rows: leftRow.rows ?? 0, gapMs: leftRow.left_at! - leftRow.fenced_at! }
}, Effect.scoped)

/**
 * Abandons a running move: the account stays at its source, and the copied rows are deleted. Fails if the account already lives at
 * the target: then the move can only be finished.
 */
export const abandonMove = Effect.fn("account.abandonMove")(function* (
  options: Databases & Pick<MoveOptions, "account">,
) {
  const { account, source } = options
  yield* lockAgainstMovers(account, source)
  const sides = yield* sidesOf(options)
  const { at, tables } = sides
  const here = yield* at("source", readMove(account))
  if (here === undefined || !isLeaving(here)) return yield* cellProblem(`${account} is not on its way from this cell.`)
  const identity = yield* at("target", readIdentity)
  if (identity?.id !== here.cell || here.cell === (yield* Cell))
    return yield* cellProblem(`${account} is on its way to the cell ${here.cell}, which this is not.`)
  const there = yield* at("target", readMove(account))
  if (there !== undefined && there.move_id !== here.move_id) return yield* notDoneThere(account)
  if (here.state === "left" || (there !== undefined && !(yield* reopenSource(here, sides))))
    return yield* cellProblem(`${account} lives in the cell ${here.cell} already: finish the move without --abandon.`)
  if (there === undefined && here.state !== "copying") return yield* notDoneThere(account)
  if (there !== undefined) yield* at("target", requireState(here, ["withdrawn"]))
  yield* endCopying(here, sides)
  if (there !== undefined) yield* at("target", clear([...tables, MARKS], here, "withdrawn"))
  yield* at("source", source`DELETE FROM account_mark WHERE account_id = ${account}`)
  // The source forgets it last: until then a new run still finds the move.
  yield* at("target", forget(here, "withdrawn"))
  yield* at("source", forget(here, "copying"))
  yield* putFencesAway(sides)
}, Effect.scoped)
