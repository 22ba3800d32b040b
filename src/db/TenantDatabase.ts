/**
 * TenantDatabase runs the statements of requests as the role billing_request. Row-level security shows this role the rows of one account
 * and environment only: a statement without the tenant filter finds no rows of other tenants.
 *
 * A write has a transaction that sets its tenant. Reads of one tenant share a connection that shows that tenant's rows, so that a read is
 * one statement; a connection changes its tenant when it has no users. Reads and writes have separate connections, apart from those of the
 * workers. No tenant gets more than its share of them, and all have time limits.
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

/** How many tenants can read at the same time; the others wait. */
const READING_SESSIONS = 8
/** How many writes can run at the same time, in total and of one tenant. */
const WRITING_CONNECTIONS = 18
const WRITING_SHARE = 6
/** Records that the service keeps about requests are single statements: how many run at the same time, in total and of one tenant. */
const RECORD_CONNECTIONS = 8
const RECORD_SHARE = 3

/** A list that takes longer is refused: an index answers all the intended filters. */
const READ_LIMIT_MS = 2_000
/** Rows are locked for milliseconds; a request that waits longer for one is refused. */
const LOCK_LIMIT_MS = 5_000
const WRITE_LIMIT_MS = 15_000

/** A connection has this role from the start, so that a reconnected one has it too. */
const REQUEST = { role: "billing_request" }
const READING = { ...REQUEST, statement_timeout: String(READ_LIMIT_MS) }
/** No tenant. A statement that enters its tenant is planned before that, and planning may evaluate the settings that policies compare with. */
const NO_TENANT = { "billing.account_id": "", "billing.livemode": "false" }
const WRITING = {
  lock_timeout: String(LOCK_LIMIT_MS),
  statement_timeout: String(WRITE_LIMIT_MS),
  ...PLANNED_ONCE,
}

const TOO_SLOW = problem(
  "query_too_slow",
  "The search took too long: use other filters or a narrower range of time, or ask for a smaller page.",
)

/** Turns a statement's time limit into the error of the request. */
const orRefuse =
  (reason: "StatementTimeoutError" | "LockTimeoutError", refusal: Problem) =>
  <E>(error: E): E | Problem =>
    SqlError.isSqlError(error) && error.reason._tag === reason ? refusal : error

/** Whether a connection was lost and reopened: it then has no tenant, and its statements fail with this. */
const isUnset = (error: unknown): boolean => sqlStateOf(error) === "42704"

const createReading = (sessions: ReaderPool) => {
  const prepare = ({ session, prepares }: Taken, { account_id, livemode }: Tenant) => {
    if (!prepares) return Deferred.await(session.ready)
    const { client, ready } = session
    const show = client`
      SELECT set_config('billing.account_id', ${account_id}, false), set_config('billing.livemode', ${String(livemode)}, false)`
    // Others wait for it: it must finish even if its caller is interrupted.
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
    // Prepares it even if the caller is interrupted meanwhile: others use it, too.
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

/** The errors of enter_tenant for a tenant that accepts no writes (migrations/0010_cells.sql), by SQLSTATE. */
const CLOSED = new Map([
  [FENCED, ACCOUNT_MOVING],
  ["BR001", problem("reset_in_progress", "The sandbox is being reset: try again in a moment.")],
])

const orClosed = <E>(error: E): E | Problem => CLOSED.get(sqlStateOf(error) ?? "") ?? error

/**
 * Creates transactions on the writer's connections; all statements of `sql` in them go there. The first statements go out together with
 * the opening. If a transaction did not enter its tenant, the role would find no rows and write none.
 */
const createWriting = (sql: SqlClient.SqlClient, { take }: PipeliningPool, semaphore: FairSemaphore) => {
  const inTransaction = transactionsOn(sql, take, { begin: "BEGIN", pending: (client) => new UnitOfWork(client) })
  return <A, E, R>(
    tenant: Tenant,
    work: Effect.Effect<A, E, R>,
  ): Effect.Effect<A, E | SqlError.SqlError | Problem, R> => {
    const opening = sql`enter_tenant(${tenant.account_id}, ${tenant.livemode})::text`
    const transaction = (isRetry: boolean) => inTransaction(work, { opening, isRetry })
    // Nothing was written because a row had changed: the second try reads it again.
    const twice = Effect.catchIf(transaction(false), isConflict, () => transaction(true))
    return semaphore
      .within(tenantName(tenant), twice)
      .pipe(Effect.mapError((error) => orClosed(orRefuse("LockTimeoutError", LOCKED)(error))))
  }
}

/** Creates the runner of the service's own statements for a tenant: as the owner of the tables, within the tenant's share. */
const createRecording =
  ({ client }: PipeliningPool, semaphore: FairSemaphore) =>
  <A, E, R>(tenant: Tenant, work: Effect.Effect<A, E, R>): Effect.Effect<A, E | Problem, R> =>
    semaphore
      .within(tenantName(tenant), Effect.provideService(work, SqlClient.SqlClient, client))
      .pipe(Effect.mapError(orRefuse("LockTimeoutError", LOCKED)))

export class TenantDatabase extends Context.Service<
  TenantDatabase,
  {
    /** Runs statements that only read, as the tenant. Fails with `query_too_slow` if one of them takes too long. */
    readonly reading: <A, E, R>(
      tenant: Tenant,
      work: Effect.Effect<A, E, R>,
    ) => Effect.Effect<A, E | SqlError.SqlError | Problem, R>
    /**
     * Runs one transaction as the tenant. Fails with `lock_timeout` if a row that it needs stays locked. If the tenant accepts no writes,
     * a transaction with statements fails with `reset_in_progress` or `account_moving`.
     */
    readonly writing: <A, E, R>(
      tenant: Tenant,
      work: Effect.Effect<A, E, R>,
    ) => Effect.Effect<A, E | SqlError.SqlError | Problem, R>
    /** Runs statements that record a request for the service itself, within the tenant's share. */
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
          poolConfig(url, WRITING_CONNECTIONS, { ...WRITING, ...REQUEST, ...NO_TENANT }),
        )
        const recorder = yield* makePipeliningPool(poolConfig(url, RECORD_CONNECTIONS, WRITING))
        return TenantDatabase.of({
          reading: createReading(new ReaderPool(readers)),
          writing: createWriting(
            yield* SqlClient.SqlClient,
            writer,
            new FairSemaphore(WRITING_CONNECTIONS, WRITING_SHARE),
          ),
          asService: createRecording(recorder, new FairSemaphore(RECORD_CONNECTIONS, RECORD_SHARE)),
        })
      }),
    )
}
