/**
 * What a request does to the database, it does as the role billing_request, to which row-level security shows the rows of
 * one account and environment only: a statement that forgot to filter would find nothing of anybody else's.
 *
 * A write has a transaction, which says whose it is. Reads of one tenant share a connection that shows that tenant's rows,
 * so that a read costs one statement; a connection changes its tenant when nobody uses it.
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Deferred, Effect, Layer, type Redacted } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import type { Connection } from "effect/sql/SqlConnection"
import { poolLayer } from "./database.ts"
import type { Tenant } from "./tenant.ts"

/** Tenants whose reads are under way at once; the others wait their turn. */
const MAX_SESSIONS = 4

/** A connection is of this role from its first moment: one that was lost and opened again is no other. */
const REQUEST_ROLE = { role: "billing_request" }

/** A connection that shows one tenant's rows. */
interface Session {
  readonly client: SqlClient.SqlClient
  tenant: string
  users: number
  /** Done once the connection shows the tenant's rows. */
  ready: Deferred.Deferred<void, SqlError.SqlError>
}

/** Who takes a session first prepares it; the others wait until it is ready. */
interface Taken {
  readonly session: Session
  readonly prepares: boolean
}

/** Hands out sessions. Whoever waits is served before anybody joins a session that is in use, so nobody waits for ever. */
class Sessions {
  readonly #sessions: ReadonlyArray<Session>
  readonly #waiting: Array<{ readonly tenant: string; readonly go: Deferred.Deferred<Taken> }> = []

  constructor(clients: ReadonlyArray<SqlClient.SqlClient>) {
    this.#sessions = clients.map((client) => ({ client, tenant: "", users: 0, ready: Deferred.makeUnsafe() }))
  }

  #give(session: Session, tenant: string): Taken {
    const prepares = session.tenant !== tenant
    if (prepares) {
      session.tenant = tenant
      session.ready = Deferred.makeUnsafe()
    }
    session.users++
    return { session, prepares }
  }

  take(tenant: string): Effect.Effect<Taken> {
    return Effect.suspend(() => {
      const own = this.#sessions.find((session) => session.tenant === tenant)
      if (own !== undefined && (own.users === 0 || this.#waiting.length === 0)) {
        return Effect.succeed(this.#give(own, tenant))
      }
      const free = this.#sessions.find(({ users }) => users === 0)
      if (free !== undefined) return Effect.succeed(this.#give(free, tenant))
      const go = Deferred.makeUnsafe<Taken>()
      this.#waiting.push({ tenant, go })
      return Deferred.await(go)
    })
  }

  release(session: Session): void {
    session.users--
    if (session.users > 0) return
    const next = this.#waiting[0]
    if (next === undefined) return
    // All who wait for the same tenant are served with the first.
    for (const place of this.#waiting.filter(({ tenant }) => tenant === next.tenant)) {
      this.#waiting.splice(this.#waiting.indexOf(place), 1)
      Deferred.doneUnsafe(place.go, Effect.succeed(this.#give(session, place.tenant)))
    }
  }

  /** The connection shows nobody's rows: whoever comes next prepares it again. */
  forget(session: Session): void {
    session.tenant = ""
  }
}

/** Whether a connection was lost and opened again: it shows nobody's rows, and says so (migrations/0010_isolation.sql). */
const isUnset = (error: unknown): boolean =>
  SqlError.isSqlError(error) && (error.reason.cause as { readonly code?: unknown } | undefined)?.code === "42704"

const createReading = (sessions: Sessions) => {
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
  return <A, E, R>(tenant: Tenant, work: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError.SqlError, R> => {
    const once = Effect.acquireUseRelease(
      sessions.take(`${tenant.account_id} ${tenant.livemode}`),
      (taken) =>
        Effect.andThen(
          prepare(taken, tenant),
          Effect.provideService(work, SqlClient.SqlClient, taken.session.client),
        ).pipe(
          Effect.tapError((error) => Effect.sync(() => (isUnset(error) ? sessions.forget(taken.session) : undefined))),
        ),
      ({ session }) => Effect.sync(() => sessions.release(session)),
    )
    return Effect.retry(once, { times: 1, while: isUnset })
  }
}

/** Whose transaction begins, and whether it may write. */
interface Entering {
  readonly tenant: Tenant
  open: boolean
}

const CurrentEntering = Context.Reference<Entering | undefined>("billing/db/Entering", {
  defaultValue: () => undefined,
})

const createWriting = (sql: SqlClient.SqlClient) => {
  const run = (statement: string) => (connection: Connection) =>
    Effect.asVoid(connection.executeUnprepared(statement, [], undefined))
  const begin = (connection: Connection) =>
    Effect.gen(function* () {
      const entering = (yield* CurrentEntering)!
      const { account_id, livemode } = entering.tenant
      yield* connection.execute("BEGIN", [], undefined)
      const [row] = yield* connection.execute("SELECT enter_request($1, $2) AS open", [account_id, livemode], undefined)
      entering.open = row.open
    }).pipe(Effect.onError(() => Effect.ignore(run("ROLLBACK")(connection))))
  const transaction = SqlClient.makeWithTransaction({
    transactionService: sql.transactionService,
    spanAttributes: [],
    acquireConnection: (restore) => restore(sql.reserve),
    begin,
    savepoint: (connection, id) => run(`SAVEPOINT nested_${id}`)(connection),
    releaseSavepoint: (connection, id) => run(`RELEASE SAVEPOINT nested_${id}`)(connection),
    commit: (connection) => Effect.asVoid(connection.execute("COMMIT", [], undefined)),
    rollback: run("ROLLBACK"),
    rollbackSavepoint: (connection, id) => run(`ROLLBACK TO SAVEPOINT nested_${id}`)(connection),
  })
  return <A, E, R>(
    tenant: Tenant,
    work: (open: boolean) => Effect.Effect<A, E, R>,
  ): Effect.Effect<A, E | SqlError.SqlError, R> =>
    Effect.suspend(() => {
      const entering: Entering = { tenant, open: false }
      const running = transaction(Effect.suspend(() => work(entering.open)))
      return Effect.provideService(running, CurrentEntering, entering)
    })
}

export class TenantDatabase extends Context.Service<
  TenantDatabase,
  {
    /** Runs statements that only read, as the tenant. */
    readonly reading: <A, E, R>(
      tenant: Tenant,
      work: Effect.Effect<A, E, R>,
    ) => Effect.Effect<A, E | SqlError.SqlError, R>
    /** Runs one transaction as the tenant. `work` is given whether it may write just now. */
    readonly writing: <A, E, R>(
      tenant: Tenant,
      work: (open: boolean) => Effect.Effect<A, E, R>,
    ) => Effect.Effect<A, E | SqlError.SqlError, R>
  }
>()("billing/db/TenantDatabase") {
  static readonly layer = (
    url: Redacted.Redacted<string>,
  ): Layer.Layer<TenantDatabase, SqlError.SqlError, SqlClient.SqlClient> =>
    Layer.effect(
      TenantDatabase,
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const clients = yield* Effect.forEach(Array.from({ length: MAX_SESSIONS }), () =>
          // A pool of one connection, which many statements share.
          Effect.map(Layer.build(Layer.fresh(poolLayer(url, 1, REQUEST_ROLE))), (context) =>
            Context.get(context, PgClient.PgClient),
          ),
        )
        return TenantDatabase.of({ reading: createReading(new Sessions(clients)), writing: createWriting(sql) })
      }),
    )
}
