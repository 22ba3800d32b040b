/**
 * Moving an account to another cell (docs/scaling.md). Both sides write down how far that is: whoever runs it again, after a
 * crash at any line, goes on from there.
 *
 *   source: copying ──▶ fenced ──────────────▶ left ──▶ (nothing: its rows are kept aside)
 *   target: arriving ────────────▶ opened ────────────▶ (nothing)
 *
 * The account lives at its source until its row at the target says `opened`; from then on it lives there. In between nobody
 * writes it. A source that goes on after all does so once the target's row says `withdrawn`, and not where it says `opened`: of
 * two that decide otherwise at once, one is refused.
 */
import { randomBytes } from "node:crypto"
import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Cell } from "../cell.ts"
import { checkLedger } from "../ledger/ledger.ts"
import { type Replayable, replayJournal } from "../runtime/replay.ts"
import { TIMERS_DUE } from "../runtime/Wakeups.ts"
import { fence, reopen, switchFence } from "./fence.ts"
import { readIdentity } from "./identity.ts"
import { CellsApart, differing, openServiceSecrets } from "./join.ts"
import { asReplica, putAside } from "./putAside.ts"
import {
  catchUp,
  copied,
  detach,
  type Move,
  publish,
  subscribe,
  subscriptionOf,
  unpublish,
  unsubscribe,
} from "./replication.ts"
import { routesOf } from "./routes.ts"
import { countRows, type MovedTable, movedTables } from "./tables.ts"

/** How far behind the target may be as the account is fenced: what it is behind by, callers wait for. */
const NEAR_MS = 300
/** How often it is looked whether it is that near. */
const LOOKS = 100
/** Once it is fenced, for how long. */
const CATCH_UP_LIMIT_MS = 30_000

type State = "copying" | "fenced" | "left" | "arriving" | "withdrawn" | "opened"

interface MoveRow extends Move {
  readonly state: State
  readonly cell: string
  readonly fenced_at: number | null
  readonly left_at: number | null
  readonly rows: number | null
}

/** The steps in their order: what stands between two of them a crash leaves to the next run. */
export const STEPS = ["copying", "proving", "fencing", "fenced", "compared", "opened", "left", "put aside"] as const
export type Step = (typeof STEPS)[number]

/** What sends callers to the cell in which an account lives (haproxy.ts). */
export type Route = (entries: ReadonlyArray<readonly [key: string, cell: string]>) => Effect.Effect<void, CellsApart>

export interface MoveOptions {
  readonly account: string
  /** The databases: of this cell, and of the one that the account moves to. */
  readonly source: SqlClient.SqlClient
  readonly target: SqlClient.SqlClient
  /** How the target's server reaches the source's database. */
  readonly from: Redacted.Redacted<string>
  readonly replayables: ReadonlyArray<Replayable>
  readonly route: Route
  /** Told at each step, for whoever looks on. */
  readonly progress: (step: Step) => Effect.Effect<void>
}

interface Sides {
  readonly at: <A, E, R>(
    side: "source" | "target",
    program: Effect.Effect<A, E, R>,
  ) => Effect.Effect<A, E, Exclude<R, SqlClient.SqlClient>>
  readonly tables: ReadonlyArray<MovedTable>
}

const apart = (message: string) => new CellsApart({ message })

const readMove = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<MoveRow>`SELECT * FROM account_move WHERE account_id = ${account}`
  return row
})

const isThere = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql`SELECT 1 FROM account WHERE id = ${account}`
  return rows.length > 0
})

/** What both must have in common beside their secrets. */
const readTerms = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ migration: string; open_from: string; wal_level: string }>`
    SELECT (SELECT max(name) FROM schema_migration) AS migration, ledger_open_from()::text AS open_from,
      current_setting('wal_level') AS wal_level`
  return row!
})

/** Fails where the two cells are not of one deployment, or differ in something that an account would be broken by. */
const requireAlike = Effect.fnUntraced(function* ({ at }: Sides) {
  const [here, there] = [yield* at("source", readTerms), yield* at("target", readTerms)]
  if (here.migration !== there.migration)
    return yield* apart(`The cells run different versions (${here.migration}, ${there.migration}): upgrade both first.`)
  if (here.open_from !== there.open_from)
    return yield* apart(
      `The books are open from ${here.open_from} here and from ${there.open_from} there: close both through the same month first.`,
    )
  if (here.wal_level !== "logical")
    return yield* apart(`Postgres here has wal_level ${here.wal_level}: set it to logical and restart Postgres.`)
})

const requireJoined = Effect.fnUntraced(function* ({ at }: Sides) {
  const cell = yield* Cell
  const identity = yield* at("target", readIdentity)
  const [ours, theirs] = [yield* at("source", openServiceSecrets), yield* at("target", openServiceSecrets)]
  if (identity?.joined !== true || differing(ours, theirs).length > 0)
    return yield* apart("The other cell has not joined this deployment: run `cell join` there.")
  if (identity.id === cell) return yield* apart(`The other cell is ${cell}, too.`)
  return identity.id
})

/** Notes at both sides that the account is moving, and puts up the fences: the source's is open until it is closed. */
const begin = Effect.fnUntraced(function* (account: string, cell: string, { at, tables }: Sides) {
  const own = yield* Cell
  const fresh = `move_${randomBytes(8).toString("hex")}`
  const note = (moveId: string, state: State, other: string) =>
    Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => sql`
        INSERT INTO account_move (account_id, move_id, state, cell) VALUES (${account}, ${moveId}, ${state}, ${other})
        ON CONFLICT (account_id) DO UPDATE SET state = excluded.state
          WHERE account_move.state = 'withdrawn' AND account_move.move_id = excluded.move_id`,
    )
  yield* at("source", note(fresh, "copying", cell))
  const move = (yield* at("source", readMove(account)))!
  if (move.cell !== cell) return yield* apart(`${account} is on its way to the cell ${move.cell} already.`)
  if (move.state !== "left") {
    yield* at("target", note(move.move_id, "arriving", own))
    const there = yield* at("target", readMove(account))
    if (there!.move_id !== move.move_id) return yield* notDoneThere(account)
  }
  yield* at("source", switchFence(tables))
  yield* at("target", switchFence(tables))
  return move
})

const notDoneThere = (account: string) =>
  apart(`The other cell is not done with ${account} yet: finish the move there first.`)

/** Whether an account that is leaving has begun to live at the target. */
const hasOpened = Effect.fnUntraced(function* ({ account_id, move_id, state }: MoveRow, { at }: Sides) {
  if (state === "left") return true
  const there = yield* at("target", readMove(account_id))
  return there?.move_id === move_id && there.state === "opened"
})

/** Lets the source go on, unless the account has begun to live at the target; returns whether it does. */
const takeBack = Effect.fnUntraced(function* ({ account_id, move_id }: Move, { at }: Sides) {
  const withdraw = Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      UPDATE account_move SET state = 'withdrawn'
      WHERE account_id = ${account_id} AND move_id = ${move_id} AND state IN ('arriving', 'withdrawn') RETURNING 1`,
  )
  const withdrawn = yield* at("target", withdraw)
  if (withdrawn.length > 0) yield* at("source", reopen(account_id))
  return withdrawn.length > 0
})

/** Proves what has been copied so far, as it stands at one moment: the books and every lifecycle of the account. */
const prove = Effect.fnUntraced(function* (account: string, replayables: ReadonlyArray<Replayable>) {
  const { ok, problems } = yield* checkLedger(account)
  if (!ok) return yield* apart(`The books of ${account} do not hold at the other cell: ${problems[0]}`)
  const { differing } = yield* replayJournal(replayables, [], account)
  const [first] = differing
  if (first !== undefined)
    return yield* apart(`A lifecycle of ${account} differs at the other cell: ${first.actor}, ${first.reason}.`)
})

/** What the books of an account come to, by ledger account. */
const readBooks = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ code: string; kobo: string }>`
    SELECT livemode || ' ' || ledger_account AS code, sum(amount_kobo)::text AS kobo FROM ledger_line
    WHERE account_id = ${account} GROUP BY 1 ORDER BY 1`
  return new Map(rows.map(({ code, kobo }) => [code, kobo]))
})

const firstDifference = <A>(one: ReadonlyMap<string, A>, other: ReadonlyMap<string, A>): string | undefined =>
  [...new Set([...one.keys(), ...other.keys()])].find(
    (name) => JSON.stringify(one.get(name)) !== JSON.stringify(other.get(name)),
  )

/** Compares both sides, of which neither is written; returns how many rows they have. */
const compare = Effect.fnUntraced(function* (account: string, sides: Sides) {
  const read = Effect.all([countRows(sides.tables, account), readBooks(account)])
  const [[ourRows, ourBooks], [theirRows, theirBooks]] = yield* Effect.all(
    [sides.at("source", read), sides.at("target", read)],
    { concurrency: 2 },
  )
  const table = firstDifference(ourRows, theirRows)
  if (table !== undefined) {
    const [ours, theirs] = [ourRows.get(table), theirRows.get(table)].map((counted) => JSON.stringify(counted))
    return yield* apart(`${account} differs in ${table}: ${ours} here, ${theirs} there.`)
  }
  const code = firstDifference(ourBooks, theirBooks)
  if (code !== undefined) return yield* apart(`The books of ${account} differ in ${code}.`)
  return [...ourRows.values()].reduce((sum, { rows }) => sum + rows, 0)
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

/** The moment from which on the account lives at the target. */
const open = Effect.fnUntraced(function* ({ account_id: account, move_id }: Move, from: string) {
  const sql = yield* SqlClient.SqlClient
  yield* asReplica(
    Effect.gen(function* () {
      const opened = yield* sql`
        UPDATE account_move SET state = 'opened'
        WHERE account_id = ${account} AND move_id = ${move_id} AND state = 'arriving' RETURNING 1`
      if (opened.length === 0) return yield* apart(`Somebody else has decided otherwise about ${account} meanwhile.`)
      // What nobody is working on any more has done nothing: whoever asks again begins anew.
      yield* sql`
        DELETE FROM idempotency_record WHERE account_id = ${account} AND response_status IS NULL AND resource_id IS NULL`
      yield* sql`
        UPDATE account SET cells = array_append(array_remove(cells, ${from}), ${from}) WHERE id = ${account}`
      yield* sql`DELETE FROM account_mark WHERE account_id = ${account}`
    }),
  )
})

/** Wakes the target's workers for what is due; all else they find by themselves within seconds. */
const wake = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    SELECT add_wakeups(${TIMERS_DUE}, ARRAY(
      SELECT DISTINCT greatest(date_trunc('second', due_at) + interval '1 second', date_trunc('second', now())) FROM timer
      WHERE account_id = ${account} AND test_clock_id IS NULL AND due_at < now() + interval '2 minutes' LIMIT 1000))`
})

const leave = Effect.fnUntraced(function* (account: string, rows: number | null) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE account_move SET state = 'left', left_at = clock_timestamp(), rows = coalesce(${rows}::bigint, rows)
    WHERE account_id = ${account} AND state = 'fenced'`
  // Its keys are unknown here from now on.
  yield* sql`SELECT pg_notify('api_key_changed', ${account})`
})

const noteRows = Effect.fnUntraced(function* (account: string, rows: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`UPDATE account_move SET rows = ${rows} WHERE account_id = ${account}`
})

/** Copies until the target is near, proves the copy, fences the account, and opens it at the target. */
const handOver = Effect.fnUntraced(function* (options: MoveOptions, move: MoveRow, sides: Sides) {
  const { account, target, from, replayables, progress } = options
  const { at, tables } = sides
  yield* progress("copying")
  const begun = (yield* at("target", subscriptionOf(move))) !== undefined
  // What a move that was given up has left there.
  if (!begun) yield* at("target", putAside([...tables, MARKS], account, undefined))
  yield* at("source", publish(move, tables, begun))
  yield* at("target", subscribe(move, from))
  yield* at("target", copied(move))
  if (move.state === "copying") {
    yield* progress("proving")
    yield* at("target", prove(account, replayables))
    for (let look = 0; look < LOOKS && (yield* at("source", catchUp(move, target))) > NEAR_MS; look++) {}
    yield* progress("fencing")
    yield* at("source", fence(account))
  }
  yield* progress("fenced")
  yield* Effect.timeoutOrElse(at("source", catchUp(move, target)), {
    duration: CATCH_UP_LIMIT_MS,
    orElse: () => Effect.fail(apart("The target does not catch up: the log of its Postgres says why.")),
  })
  yield* requireAlike(sides)
  const rows = yield* compare(account, sides)
  yield* at("source", noteRows(account, rows))
  yield* at("target", advanceSequences(yield* at("source", readSequences)))
  yield* progress("compared")
  yield* at("target", open(move, yield* Cell))
})

/** Any number of our own: the class of the locks by which one mover at a time works on an account. */
const MOVER_LOCKS = 7_301_012

/** Fails where somebody else is moving the account; the others are kept off while the scope is open. */
const exclusively = Effect.fnUntraced(function* (account: string, source: SqlClient.SqlClient) {
  const connection = yield* source.reserve
  const lock = `SELECT pg_try_advisory_lock(${MOVER_LOCKS}, hashtext($1)) AS taken`
  const [row] = yield* connection.execute(lock, [account], undefined)
  if (row.taken !== true) return yield* apart(`Somebody else is moving ${account} just now.`)
})

/** Ends the copying: each side forgets it once the other one need not know of it any more. */
const endCopying = Effect.fnUntraced(function* (move: Move, { at }: Sides) {
  const subscription = yield* at("target", detach(move))
  yield* at("source", unpublish(move, subscription))
  yield* at("target", unsubscribe(move))
})

const forget = Effect.fnUntraced(function* ({ account_id, move_id }: Move) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`DELETE FROM account_move WHERE account_id = ${account_id} AND move_id = ${move_id}`
})

/** The states of an account at its source. */
const LEAVING: ReadonlyArray<State> = ["copying", "fenced", "left"]

const sidesOf = Effect.fnUntraced(function* ({ source, target }: Pick<MoveOptions, "source" | "target">) {
  const sides: Sides = {
    at: (side, program) => Effect.provideService(program, SqlClient.SqlClient, side === "source" ? source : target),
    tables: yield* Effect.provideService(movedTables, SqlClient.SqlClient, source),
  }
  return sides
})

/**
 * Moves an account. Returns how many rows it had, and for how long its writes were refused, ms. Fails with CellsApart where the
 * cells cannot have it moved, or the copy is not the same: it is then written at its source as before.
 */
export const moveAccount = Effect.fn("account.move")(function* (options: MoveOptions) {
  const { account, source, route, progress } = options
  yield* exclusively(account, source)
  const sides = yield* sidesOf(options)
  const { at, tables } = sides
  const cell = yield* requireJoined(sides)
  const standing = yield* at("source", readMove(account))
  if (standing?.state === "arriving")
    return yield* apart(
      `${account} is on its way to this cell: finish that move first, from the cell ${standing.cell}.`,
    )
  if (standing === undefined || standing.state === "copying") {
    if (!(yield* at("source", isThere(account)))) return yield* apart(`No such account: ${account}.`)
    if (standing === undefined && (yield* at("target", isThere(account)))) return yield* notDoneThere(account)
    yield* requireAlike(sides)
  }
  const move = yield* begin(account, cell, sides)
  if (!(yield* hasOpened(move, sides)))
    yield* handOver(options, move, sides).pipe(Effect.tapErrorTag("CellsApart", () => at("source", reopen(account))))
  yield* progress("opened")
  if (move.state !== "left") {
    yield* at("target", wake(account))
    yield* route((yield* at("target", routesOf(account, cell))).map((key) => [key, cell] as const))
    yield* at("source", leave(account, null))
  }
  yield* progress("left")
  yield* endCopying(move, sides)
  const left = (yield* at("source", readMove(account)))!
  yield* at("source", putAside([...tables, MARKS], account, move.move_id))
  yield* progress("put aside")
  yield* at("target", forget(move))
  yield* at("source", forget(move))
  yield* at("target", switchFence(tables))
  yield* at("source", switchFence(tables))
  return { rows: left.rows ?? 0, gapMs: left.left_at! - left.fenced_at! }
}, Effect.scoped)

/**
 * Gives up a move that is under way: the account stays where it is, and what was copied goes. Fails where it lives at the
 * target already: then the move can only be finished.
 */
export const abandonMove = Effect.fn("account.abandonMove")(function* (
  options: Pick<MoveOptions, "account" | "source" | "target">,
) {
  const { account, source } = options
  yield* exclusively(account, source)
  const sides = yield* sidesOf(options)
  const { at, tables } = sides
  const here = yield* at("source", readMove(account))
  if (here === undefined || !LEAVING.includes(here.state))
    return yield* apart(`${account} is not on its way from this cell.`)
  const identity = yield* at("target", readIdentity)
  if (identity?.id !== here.cell || here.cell === (yield* Cell))
    return yield* apart(`${account} is on its way to the cell ${here.cell}, which this is not.`)
  const there = yield* at("target", readMove(account))
  if (there !== undefined && there.move_id !== here.move_id) return yield* notDoneThere(account)
  if (here.state === "left" || (there !== undefined && !(yield* takeBack(here, sides))))
    return yield* apart(`${account} lives in the cell ${here.cell} already: finish the move without --abandon.`)
  if (there === undefined && here.state !== "copying") return yield* notDoneThere(account)
  yield* endCopying(here, sides)
  if (there !== undefined) yield* at("target", putAside([...tables, MARKS], account, undefined))
  yield* at("source", source`DELETE FROM account_mark WHERE account_id = ${account}`)
  // Its source forgets it last: until then whoever looks finds the move as it was.
  yield* at("target", forget(here))
  yield* at("source", forget(here))
  yield* at("target", switchFence(tables))
  yield* at("source", switchFence(tables))
}, Effect.scoped)

const MARKS: MovedTable = { name: "account_mark", owner: "account_id", key: [], versioned: false }
