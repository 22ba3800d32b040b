/**
 * Moving an account to another cell (docs/scaling.md). Both sides write down how far that is (standing.ts): whoever runs it again,
 * after a crash at any line, goes on from there.
 */
import { Effect, type Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { Cell } from "../base/cell.ts"
import { OWN_ACCOUNT } from "../ledger/chart.ts"
import { LOCKS } from "../postgres/advisoryLocks.ts"
import type { Replayable } from "../runtime/replay.ts"
import { TIMERS_DUE } from "../runtime/Wakeups.ts"
import { apart, type CellsApart } from "./CellsApart.ts"
import { compare, prove, requireAlike, requireJoined } from "./compare.ts"
import { fence, switchFence } from "./fence.ts"
import { readIdentity } from "./identity.ts"
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
  requireStanding,
  takeBack,
} from "./standing.ts"
import { analyse, type MovedTable } from "./tables.ts"

/** How often it is looked whether what is being deleted is gone. */
const DELETING_EVERY_MS = 200
/** How far behind the target may be as the account is fenced: what it is behind by, callers wait for. */
const NEAR_MS = 300
/** How often it is looked whether it is that near. */
const LOOKS = 100
/** Once it is fenced, for how long. */
const CATCH_UP_LIMIT_MS = 30_000

/** The steps in their order: what stands between two of them a crash leaves to the next run. */
export const STEPS = ["copying", "proving", "fencing", "fenced", "compared", "opened", "left", "put aside"] as const
export type Step = (typeof STEPS)[number]

/** What sends callers to the cell in which an account lives (haproxy.ts). With no entries it fails where nobody could be told. */
export type Route = (entries: ReadonlyArray<readonly [key: string, cell: string]>) => Effect.Effect<void, CellsApart>

export interface MoveOptions extends Databases {
  readonly account: string
  /** How the target's server reaches the source's database. */
  readonly from: Redacted.Redacted<string>
  readonly replayables: ReadonlyArray<Replayable>
  readonly route: Route
  /** Told at each step, for whoever looks on. */
  readonly progress: (step: Step) => Effect.Effect<void>
}

/** A row at each side. */
interface Standing {
  readonly here: MoveRow
  readonly there: MoveRow | undefined
}

const MARKS: MovedTable = { name: "account_mark", owner: "account_id", key: [], versioned: false }

const isThere = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql`SELECT 1 FROM account WHERE id = ${account}`
  return rows.length > 0
})

/** The sequences that order rows of an account, and where they are. */
const readSequences = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ name: string; last: number | null }>`
    SELECT sequencename::text AS name, last_value AS last FROM pg_sequences WHERE schemaname = 'public' ORDER BY 1`
})

/** Numbers that may be drawn while a sequence is set. */
const SEQUENCE_MARGIN = 1_000_000

/** What is made at the target from now on comes after what was made at the source. */
const advanceSequences = Effect.fnUntraced(function* (ahead: Effect.Success<typeof readSequences>) {
  const sql = yield* SqlClient.SqlClient
  for (const { name, last } of ahead)
    yield* sql`
      SELECT setval(${`public.${name}`}::regclass, ${last ?? 0}::bigint + ${SEQUENCE_MARGIN}::bigint) FROM pg_sequences
      WHERE schemaname = 'public' AND sequencename = ${name} AND coalesce(last_value, 0) <= ${last ?? 0}::bigint`
})

/** Wakes the target's workers for what is due; all else they find by themselves within seconds. */
const wake = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    SELECT add_wakeups(${TIMERS_DUE}, ARRAY(
      SELECT DISTINCT greatest(date_trunc('second', due_at) + interval '1 second', date_trunc('second', now())) FROM timer
      WHERE account_id = ${account} AND test_clock_id IS NULL AND due_at < now() + interval '2 minutes' LIMIT 1000))`
})

/** Whether a sandbox of the account is being reset, or a clock of its is being deleted. */
const isDeleting = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql`SELECT 1 FROM deletion WHERE account_id = ${account} LIMIT 1`
  return rows.length > 0
})

/** Proves what is copied. What is half deleted proves nothing: deletions that are under way are waited for. */
const proveCopy = Effect.fnUntraced(function* (
  { account, target, replayables }: MoveOptions,
  here: MoveRow,
  { at }: Sides,
) {
  const deleting = at("source", isDeleting(account))
  const proved = Effect.gen(function* () {
    yield* Effect.repeat(deleting, { while: (is) => is, schedule: Schedule.spaced(DELETING_EVERY_MS) })
    yield* at("source", catchUp(here, target))
    yield* at("target", prove(account, replayables))
  })
  // One that has begun meanwhile may be what differs.
  yield* Effect.retry(proved, { while: () => deleting })
})

/** Copies until the target is near, proves the copy, fences the account, and opens it at the target. */
const handOver = Effect.fnUntraced(function* (options: MoveOptions, { here, there }: Standing, sides: Sides) {
  const { account, target, from, progress } = options
  const { at, tables } = sides
  yield* progress("copying")
  const begun = (yield* at("target", subscriptionOf(here))) !== undefined
  // What a move that was given up has left there.
  if (!begun) yield* at("target", clear([...tables, MARKS], here, "arriving"))
  yield* at("source", publish(here, tables, begun))
  yield* at("target", subscribe(here, from))
  yield* at("source", reached(here))
  yield* at("target", copied(here))
  if (here.state === "copying") {
    yield* progress("proving")
    yield* at("target", analyse(tables))
    yield* proveCopy(options, here, sides)
    for (let look = 0; look < LOOKS && (yield* at("source", catchUp(here, target))) > NEAR_MS; look++) {}
    yield* progress("fencing")
    yield* at("source", fence(here))
    yield* at("source", requireStanding(here, ["fenced"]))
  }
  yield* progress("fenced")
  yield* Effect.timeoutOrElse(at("source", catchUp(here, target)), {
    duration: CATCH_UP_LIMIT_MS,
    orElse: () => Effect.fail(apart("The target does not catch up: the log of its Postgres says why.")),
  })
  yield* requireAlike(sides)
  const rows = yield* compare(account, sides)
  yield* at("source", noteRows(here, rows))
  yield* at("target", advanceSequences(yield* at("source", readSequences)))
  yield* progress("compared")
  yield* at("target", open(there!, yield* Cell))
})

/** Fails where somebody else is moving the account; the others are kept off while the scope is open. */
const exclusively = Effect.fnUntraced(function* (account: string, source: SqlClient.SqlClient) {
  const connection = yield* source.reserve
  const lock = `SELECT pg_try_advisory_lock(${LOCKS.mover}, hashtext($1)) AS taken`
  const [row] = yield* connection.execute(lock, [account], undefined)
  if (row.taken !== true) return yield* apart(`Somebody else is moving ${account} just now.`)
})

/** Ends the copying: each side forgets it once the other one need not know of it any more. */
const endCopying = Effect.fnUntraced(function* (move: Move, { at }: Sides) {
  const subscription = yield* at("target", detach(move))
  yield* at("source", unpublish(move, subscription))
  yield* at("target", unsubscribe(move))
})

/** Switches the fences off, unless another account moves. */
const putFencesAway = Effect.fnUntraced(function* ({ at, tables }: Sides) {
  yield* at("target", switchFence(tables))
  yield* at("source", switchFence(tables))
})

/**
 * Moves an account. Returns how many rows it had, and for how long its writes were refused, ms. Where that fails before it has
 * opened at the target, it is written at its source as before.
 */
export const moveAccount = Effect.fn("account.move")(function* (options: MoveOptions) {
  const { account, source, route, progress } = options
  if (account === OWN_ACCOUNT)
    return yield* apart(`${account} is the service's own: each cell has one, and it does not move.`)
  yield* exclusively(account, source)
  const sides = yield* sidesOf(options)
  const { at, tables } = sides
  const cell = yield* requireJoined(sides)
  const standing = yield* at("source", readMove(account))
  if (standing !== undefined && !isLeaving(standing))
    return yield* apart(
      `${account} is on its way to this cell: finish that move first, from the cell ${standing.cell}.`,
    )
  // Found out before anything rests on it: once the account has opened there, callers have to be sent after it.
  if (standing?.state !== "left") yield* route([])
  if (standing === undefined || standing.state === "copying") {
    if (!(yield* at("source", isThere(account)))) return yield* apart(`No such account: ${account}.`)
    if (standing === undefined && (yield* at("target", isThere(account)))) return yield* notDoneThere(account)
    yield* requireAlike(sides)
  }
  const begun = yield* begin(account, cell, sides)
  const { here } = begun
  if (!hasOpened(here, begun.there))
    yield* handOver(options, begun, sides).pipe(
      Effect.onError(() =>
        Effect.catchCause(takeBack(here, sides), (cause) =>
          Effect.logError(
            "the target does not say whether the account has opened there: its writes may be refused until this is run again, or given up by --abandon",
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
    // Who slept through the rest of the move does not send callers to where the account was then.
    yield* at("source", requireStanding(here, ["fenced", "left"]))
    yield* route(entries)
    yield* at("source", leave(here))
  }
  yield* progress("left")
  yield* endCopying(here, sides)
  const left = yield* at("source", requireStanding(here, ["left"]))
  yield* at("source", putAside([...tables, MARKS], here))
  yield* progress("put aside")
  yield* at("target", forget(here, "opened"))
  yield* at("source", forget(here, "left"))
  yield* putFencesAway(sides)
  return { rows: left.rows ?? 0, gapMs: left.left_at! - left.fenced_at! }
}, Effect.scoped)

/**
 * Gives up a move that is under way: the account stays where it is, and what was copied goes. Fails where it lives at the
 * target already: then the move can only be finished.
 */
export const abandonMove = Effect.fn("account.abandonMove")(function* (
  options: Databases & Pick<MoveOptions, "account">,
) {
  const { account, source } = options
  yield* exclusively(account, source)
  const sides = yield* sidesOf(options)
  const { at, tables } = sides
  const here = yield* at("source", readMove(account))
  if (here === undefined || !isLeaving(here)) return yield* apart(`${account} is not on its way from this cell.`)
  const identity = yield* at("target", readIdentity)
  if (identity?.id !== here.cell || here.cell === (yield* Cell))
    return yield* apart(`${account} is on its way to the cell ${here.cell}, which this is not.`)
  const there = yield* at("target", readMove(account))
  if (there !== undefined && there.move_id !== here.move_id) return yield* notDoneThere(account)
  if (here.state === "left" || (there !== undefined && !(yield* takeBack(here, sides))))
    return yield* apart(`${account} lives in the cell ${here.cell} already: finish the move without --abandon.`)
  if (there === undefined && here.state !== "copying") return yield* notDoneThere(account)
  if (there !== undefined) yield* at("target", requireStanding(here, ["withdrawn"]))
  yield* endCopying(here, sides)
  if (there !== undefined) yield* at("target", clear([...tables, MARKS], here, "withdrawn"))
  yield* at("source", source`DELETE FROM account_mark WHERE account_id = ${account}`)
  // Its source forgets it last: until then whoever looks finds the move as it was.
  yield* at("target", forget(here, "withdrawn"))
  yield* at("source", forget(here, "copying"))
  yield* putFencesAway(sides)
}, Effect.scoped)
