/**
 * ReaderPool shares the connections that requests read on. A connection shows the rows of one tenant at a time, and many statements of
 * that tenant share it. A tenant has at most one, so that its slow lists delay only itself. In memory only.
 */
import { Context, Deferred, Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { type Problem, problem } from "../base/problem.ts"
import { CurrentRowLoader, RowLoader } from "./RowLoader.ts"

/**
 * How many requests share a connection, on which their statements run one after the other: enough to keep it busy while results are on
 * their way.
 */
const MAX_USERS = 32
/** A read that has waited longer for its turn is refused. */
const WAIT_LIMIT_MS = 10_000

const OVERLOADED = problem("service_unavailable", "The service has more reads than it can do at the moment.")

/** A connection that shows one tenant's rows. */
export interface Session {
  readonly client: SqlClient.SqlClient
  /** The services for work on it: the client, and the look-ups that reads share. */
  readonly services: Context.Context<SqlClient.SqlClient>
  tenant: string
  users: number
  /** Done once the connection shows the tenant's rows. */
  ready: Deferred.Deferred<void, SqlError.SqlError>
}

/** A session that a caller has taken. The first caller prepares it; the others wait until it is ready. */
export interface Taken {
  readonly session: Session
  readonly prepares: boolean
}

interface Waiting {
  readonly tenant: string
  readonly start: (taken: Taken) => void
}

/** Gives sessions to tenants in turn: while another tenant waits for a session, no further caller joins it. */
export class ReaderPool {
  readonly #sessions: ReadonlyArray<Session>
  readonly #waiting = new Set<Waiting>()

  constructor(clients: ReadonlyArray<SqlClient.SqlClient>) {
    this.#sessions = clients.map((client) => ({
      client,
      services: Context.make(SqlClient.SqlClient, client).pipe(Context.add(CurrentRowLoader, new RowLoader(client))),
      tenant: "",
      users: 0,
      ready: Deferred.makeUnsafe(),
    }))
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

  #inUse(tenant: string): Session | undefined {
    return this.#sessions.find((session) => session.tenant === tenant && session.users > 0)
  }

  /** The first other tenant in the queue without a session. */
  #firstOther(tenant: string): string | undefined {
    for (const waiting of this.#waiting)
      if (waiting.tenant !== tenant && this.#inUse(waiting.tenant) === undefined) return waiting.tenant
    return undefined
  }

  /** The session that a tenant may take right now. */
  #open(tenant: string): Session | undefined {
    const current = this.#inUse(tenant)
    if (current !== undefined) {
      return current.users < MAX_USERS && this.#firstOther(tenant) === undefined ? current : undefined
    }
    return (
      this.#sessions.find((session) => session.users === 0 && session.tenant === tenant) ??
      this.#sessions.find(({ users }) => users === 0)
    )
  }

  take(tenant: string): Effect.Effect<Taken, Problem> {
    return Effect.suspend(() => {
      const open = this.#open(tenant)
      return open === undefined ? this.#wait(tenant) : Effect.succeed(this.#give(open, tenant))
    })
  }

  #wait(tenant: string): Effect.Effect<Taken, Problem> {
    return Effect.callback((resume) => {
      const waiting: Waiting = {
        tenant,
        start: (taken) => {
          clearTimeout(limit)
          this.#waiting.delete(waiting)
          resume(Effect.succeed(taken))
        },
      }
      const limit = setTimeout(() => {
        this.#waiting.delete(waiting)
        resume(Effect.fail(OVERLOADED))
      }, WAIT_LIMIT_MS)
      this.#waiting.add(waiting)
    })
  }

  release(session: Session): void {
    session.users--
    const other = this.#firstOther(session.tenant)
    if (other !== undefined && session.users > 0) return
    const tenant = other ?? session.tenant
    for (const waiting of this.#waiting)
      if (waiting.tenant === tenant && session.users < MAX_USERS) waiting.start(this.#give(session, tenant))
  }

  /** Marks the connection as showing no tenant's rows: the next user prepares it again. */
  forget(session: Session): void {
    session.tenant = ""
  }
}
