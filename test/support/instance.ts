/** A server on a database of its own, with an account: what most test files need. */
import { afterAll, beforeAll } from "vitest"
import { createAccount } from "../../src/account/Accounts.ts"
import { createAdministrator } from "../../src/key/ApiKeys.ts"
import { type Api, makeApi } from "./api.ts"
import { type TestDatabase, useDatabase } from "./database.ts"
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
  /** One of the service's own people, in the sandbox. */
  readonly administrator: Api
}

/** Call at the top of a test file. Settings that are known only once others have started are asked for then. */
export const useInstance = (env: () => Readonly<Record<string, string>> = () => ({})): Instance => {
  const database = useDatabase()
  let server: Server
  let account: { readonly account: { readonly id: string }; readonly keys: ReturnType<Instance["keys"]> }
  let other: string
  let administrator: string
  beforeAll(async () => {
    account = await database.run(() => createAccount({ businessName: "Fit Lagos", liveAccess: "approved" }))
    other = (await database.run(() => createAccount({ businessName: "Stranger" }))).keys.sk_test
    administrator = (await database.run(() => createAdministrator("Ops"))).key
    server = await startServer(database.url(), env())
  })
  afterAll(() => server?.stop())
  const late = (key: () => string | undefined, environment: "sandbox" | "live" = "sandbox"): Api => {
    const api = () => makeApi(server.origin, key(), environment)
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
    database,
    server: () => server,
    api: late(() => account.keys.sk_test),
    live: late(() => account.keys.sk_live, "live"),
    keys: () => account.keys,
    accountId: () => account.account.id,
    stranger: late(() => other),
    administrator: late(() => administrator),
  }
}
