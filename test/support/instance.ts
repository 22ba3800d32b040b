/** Runs a server with a database and an account, which most test files need. */
import { afterAll, beforeAll } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createAdministrator } from "../../src/security/key/apiKeys.ts"
import { type Api, createApi } from "./api.ts"
import { createDatabase, type OwnDatabase, type TestDatabase } from "./database.ts"
import { type Server, startServer } from "./server.ts"

export interface Instance {
  readonly database: TestDatabase
  readonly server: () => Server
  /** The sandbox, with the account's secret key. */
  readonly api: Api
  readonly live: Api
  readonly keys: () => {
    readonly sk_test: string
    readonly pk_test: string
    readonly sk_live?: string
    readonly pk_live?: string
  }
  readonly accountId: () => string
  /** Another account's key of the sandbox. */
  readonly stranger: Api
  /** An administrator of the service, in the sandbox. */
  readonly administrator: Api
}

interface Running {
  readonly database: OwnDatabase
  readonly server: Server
}

const start = async (env: Readonly<Record<string, string>>): Promise<Running> => {
  const database = createDatabase()
  await database.create()
  return { database, server: await startServer(database.url(), env) }
}

/** One for each of the workers, which run their files in sequence. Ends with its worker. */
let shared: Promise<Running> | undefined

const startShared = async (): Promise<Running> => {
  const before = await shared?.catch(() => undefined)
  const lives = before !== undefined && before.server.process.exitCode === null && !before.server.process.killed
  if (!lives) shared = start({})
  return shared!
}

const instanceOf = (startOne: () => Promise<Running>): Instance => {
  let running: Running
  let account: { readonly account: { readonly id: string }; readonly keys: ReturnType<Instance["keys"]> }
  let other: string
  let administrator: string
  beforeAll(async () => {
    running = await startOne()
    const { database } = running
    const [made, stranger, person] = await Promise.all([
      database.run(() => createAccount({ businessName: "Fit Lagos", liveAccess: "approved" })),
      database.run(() => createAccount({ businessName: "Stranger" })),
      database.run(() => createAdministrator("Ops")),
    ])
    account = made
    other = stranger.keys.sk_test
    administrator = person.key
  })
  const late = (key: () => string | undefined, environment: "sandbox" | "live" = "sandbox"): Api => {
    const api = () => createApi(running.server.origin, key(), environment)
    return {
      request: (...args) => api().request(...args),
      get: (path) => api().get(path),
      post: (path, body, headers) => api().post(path, body, headers),
      patch: (path, body) => api().patch(path, body),
      delete: (path) => api().delete(path),
      all: (path) => api().all(path),
    }
  }
  return {
    database: {
      url: () => running.database.url(),
      run: (program) => running.database.run(program),
      write: (writes) => running.database.write(writes),
    },
    server: () => running.server,
    api: late(() => account.keys.sk_test),
    live: late(() => account.keys.sk_live, "live"),
    keys: () => account.keys,
    accountId: () => account.account.id,
    stranger: late(() => other),
    administrator: late(() => administrator),
  }
}

/**
 * Call at the top of a test file. The server and its database are shared with the worker's other files, the accounts
 * are the file's own. For files that neither stop the server nor read (or break) data without an account.
 */
export const useInstance = (): Instance => instanceOf(startShared)

/**
 * Call at the top of a test file: its own server and database. Settings that depend on other servers are read when
 * those have started.
 */
export const useOwnInstance = (env: () => Readonly<Record<string, string>> = () => ({})): Instance => {
  let own: Running | undefined
  // After hooks run in reverse order: this one runs after the file's own.
  afterAll(async () => {
    await own?.server.stop()
    await own?.database.drop()
  })
  return instanceOf(async () => {
    own = await start(env())
    return own
  })
}
