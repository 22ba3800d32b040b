/**
 * What a request does to the database, it does as the role billing_request, to which row-level security shows the rows of
 * one account and environment only: a statement that forgot to filter would find nothing of anybody else's.
 *
 * A write has a transaction, which says whose it is. Reads of one tenant share a connection that shows that tenant's rows,
 * so that a read costs one statement; a connection changes its tenant when nobody uses it. Both have connections of their
 * own beside those of the workers, of which no tenant gets more than its share, and limits of time.
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Deferred, Effect, Layer, type Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, SqlError } from "effect/sql"
import { type Problem, problem } from "../base/problem.ts"
import { FairSemaphore } from "../concurrency/FairSemaphore.ts"
import { sqlStateOf } from "../postgres/errors.ts"
import { LOCKED } from "../postgres/lockWait.ts"
import { poolConfig } from "../postgres/poolConfig.ts"
import { makePipeliningPool, type PipeliningPool } from "../postgres/pools.ts"
import { transactionsOn } from "../postgres/transaction.ts"
import { PLANNED_ONCE } from "./database.ts"
import { ReaderPool, type Taken } from "./ReaderPool.ts"
import { ACCOUNT_MOVING, FENCED, type Tenant, tenantName } from "./tenant.ts"
import { isConflict, UnitOfWork } from "./UnitOfWork.ts"

/** Tenants whose reads are under way at once; the others wait their turn. */
const READING_SESSIONS = 8
/** Writes under way at once, and of one tenant. */
const WRITING_CONNECTIONS = 18
const WRITING_SHARE = 6
/** What the service notes of requests is a statement, not a transaction: so many at once, and of one tenant. */
const KEEPING_CONNECTIONS = 8
const KEEPING_SHARE = 3

/** A list that takes longer is refused: all that lists are meant to be filtered by is answered from an index. */
const READ_LIMIT_MS = 2_000
/** Rows are held for milliseconds; who waits longer for one than this is refused. */
const LOCK_LIMIT_MS = 5_000
const WRITE_LIMIT_MS = 15_000

/** A connection is of this role from its first moment: one that was lost and opened again is no other. */
const REQUEST = { role: "billing_request" }
const READING = { ...REQUEST, statement_timeout: String(READ_LIMIT_MS) }
/** Nobody's. A statement that enters its tenant itself is planned before it has, and planning may evaluate what policies compare with. */
const NOBODYS = { "billing.account_id": "", "billing.livemode": "false" }
const WRITING = {
  lock_timeout: String(LOCK_LIMIT_MS),
  statement_timeout: String(WRITE_LIMIT_MS),
  ...PLANNED_ONCE,
}

const TOO_SLOW = problem(
  "query_too_slow",
  "This took too long to find: filter by less, or by a narrower range of time, or ask for a smaller page.",
)

/** What a statement's time limit means for the request. */
const orRefuse =
  (reason: "StatementTimeoutError" | "LockTimeoutError", refusal: Problem) =>
  <E>(error: E): E | Problem =>
    SqlError.isSqlError(error) && error.reason._tag === reason ? refusal : error

/** Whether a connection was lost and opened again: it shows nobody's rows, and says so (migrations/0010_isolation.sql). */
const isUnset = (error: unknown): boolean => sqlStateOf(error) === "42704"

const createReading = (sessions: ReaderPool) => {
  const prepare = ({ session, prepares }: Taken, { account_id, livemode }: Tenant) => {
    if (!prepares) return Deferred.await(session.ready)
    const { client, ready } = session
    const show = client`
      SELECT set_config('billing.account_id', ${account_id}, false), set_config('billing.livemode', ${String(livemode)}, false)`
    // Others wait for it: it ends as it ends, whatever becomes of who began it.
    return Effect.uninterruptible(
      Effect.asVoid(show).pipe(
        Effect.tapCause(() => Effect.sync(() => sessions.forget(session))),
        Effect.onExit((exit) => Deferred.done(ready, exit)),
      ),
    )
  }
  return <A, E, R>(
    tenant: Tenant,
    work: Effect.Effect<A, E, R>,
  ): Effect.Effect<A, E | SqlError.SqlError | Problem, R> => {
    const release = ({ session }: Taken) => Effect.sync(() => sessions.release(session))
    // Prepared as it is taken, whatever becomes of who took it meanwhile: it is the others', too.
    const taking = Effect.tap(sessions.take(tenantName(tenant)), (taken) =>
      Effect.onError(prepare(taken, tenant), () => release(taken)),
    )
    const once = Effect.acquireUseRelease(
      taking,
      ({ session }) =>
        Effect.tapError(Effect.provide(work, session.services), (error) =>
          Effect.sync(() => (isUnset(error) ? sessions.forget(session) : undefined)),
        ),
      release,
    )
    return Effect.mapError(
      Effect.retry(once, { times: 1, while: isUnset }),
      orRefuse("StatementTimeoutError", TOO_SLOW),
    )
  }
}

/** What enter_tenant says of a tenant that takes nothing just now (migrations/0025_cells.sql), by its SQLSTATE. */
const CLOSED = new Map([
  [FENCED, ACCOUNT_MOVING],
  ["BR001", problem("reset_in_progress", "The sandbox is being reset: try again in a moment.")],
])

const orClosed = <E>(error: E): E | Problem => CLOSED.get(sqlStateOf(error) ?? "") ?? error

/**
 * Transactions on the writer's connections, to which all statements of `sql` in them go. Their first statements go out with what
 * begins them: were a transaction not to enter its tenant, the role would find nothing and write nothing.
 */
const createWriting = (sql: SqlClient.SqlClient, { take }: PipeliningPool, places: FairSemaphore) => {
  const inTransaction = transactionsOn(sql, take, { begin: "BEGIN", pending: (client) => new UnitOfWork(client) })
  return <A, E, R>(
    tenant: Tenant,
    work: Effect.Effect<A, E, R>,
  ): Effect.Effect<A, E | SqlError.SqlError | Problem, R> => {
    const opening = sql`enter_tenant(${tenant.account_id}, ${tenant.livemode})::text`
    const transaction = (isRetry: boolean) => inTransaction(work, { opening, isRetry })
    // Nothing was written because something had changed: the second try reads it.
    const twice = Effect.catchIf(transaction(false), isConflict, () => transaction(true))
    return places
      .within(tenantName(tenant), twice)
      .pipe(Effect.mapError((error) => orClosed(orRefuse("LockTimeoutError", LOCKED)(error))))
  }
}

/** Statements of the service's own on a tenant's behalf: as the owner of the tables, in one of the tenant's places. */
const createKeeping =
  ({ client }: PipeliningPool, places: FairSemaphore) =>
  <A, E, R>(tenant: Tenant, work: Effect.Effect<A, E, R>): Effect.Effect<A, E | Problem, R> =>
    places
      .within(tenantName(tenant), Effect.provideService(work, SqlClient.SqlClient, client))
      .pipe(Effect.mapError(orRefuse("LockTimeoutError", LOCKED)))

export class TenantDatabase extends Context.Service<
  TenantDatabase,
  {
    /** Runs statements that only read, as the tenant. Fails with `query_too_slow` where one of them takes too long. */
    readonly reading: <A, E, R>(
      tenant: Tenant,
      work: Effect.Effect<A, E, R>,
    ) => Effect.Effect<A, E | SqlError.SqlError | Problem, R>
    /**
     * Runs one transaction as the tenant. Fails with `lock_timeout` where something that it needs stays locked; where it does
     * anything, and the tenant takes nothing just now, with `reset_in_progress` or `account_moving`.
     */
    readonly writing: <A, E, R>(
      tenant: Tenant,
      work: Effect.Effect<A, E, R>,
    ) => Effect.Effect<A, E | SqlError.SqlError | Problem, R>
    /** Runs what the service notes of a request for itself, at the tenant's cost. */
    readonly asService: <A, E, R>(tenant: Tenant, work: Effect.Effect<A, E, R>) => Effect.Effect<A, E | Problem, R>
  }
>()("billing/db/TenantDatabase") {
  static readonly layer = (
    url: Redacted.Redacted<string>,
  ): Layer.Layer<TenantDatabase, SqlError.SqlError, SqlClient.SqlClient> =>
    Layer.effect(
      TenantDatabase,
      Effect.gen(function* () {
        // Pools of one connection, which many statements share.
        const reader = Effect.provide(
          PgClient.make({ ...poolConfig(url, 1, READING), multiplex: true }),
          Reactivity.layer,
        )
        const readers = yield* Effect.all(Array.from({ length: READING_SESSIONS }, () => reader))
        const writer = yield* makePipeliningPool(
          poolConfig(url, WRITING_CONNECTIONS, { ...WRITING, ...REQUEST, ...NOBODYS }),
        )
        const keeper = yield* makePipeliningPool(poolConfig(url, KEEPING_CONNECTIONS, WRITING))
        return TenantDatabase.of({
          reading: createReading(new ReaderPool(readers)),
          writing: createWriting(
            yield* SqlClient.SqlClient,
            writer,
            new FairSemaphore(WRITING_CONNECTIONS, WRITING_SHARE),
          ),
          asService: createKeeping(keeper, new FairSemaphore(KEEPING_CONNECTIONS, KEEPING_SHARE)),
        })
      }),
    )
}
