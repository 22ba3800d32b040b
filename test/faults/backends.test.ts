/** Backends of Postgres that are killed again and again, while clients without an Idempotency-Key do what `Retry-After` says (decision N4). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { afterAll, beforeAll, expect, it } from "vitest"
import { startTemporaryPostgres, type TemporaryPostgres } from "../../scripts/postgres.ts"
import { onDatabase, poolLayer } from "../../src/db/database.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { type Api, createApi } from "../support/api.ts"
import type { Sql } from "../support/database.ts"
import { type Server, startServer } from "../support/server.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"
import { expectSound } from "../support/whole.ts"

const CLIENTS = 16
const KILLS = 10
/** Requests that are answered between two kills. */
const ANSWERED_BETWEEN = 20

/** One of its own: a backend that is killed takes all connections of its server with it. */
let postgres: TemporaryPostgres
let server: Server
let api: Api

const url = () => onDatabase(postgres.url, "postgres")
const run = <A, E>(program: (sql: Sql) => Effect.Effect<A, E, SqlClient.SqlClient>): Promise<A> =>
  Effect.runPromise(Effect.flatMap(SqlClient.SqlClient, program).pipe(Effect.provide(poolLayer(url(), 1))))

beforeAll(async () => {
  postgres = await startTemporaryPostgres("killed", { fsync: "off" })
  server = await startServer(url())
  const { keys } = await run(() => createAccount({ businessName: "Fit Lagos" }))
  api = createApi(server.origin, keys.sk_test)
})

afterAll(async () => {
  await server?.stop()
  postgres?.end()
})

/** What each of the clients' tries was told, by its name, which is on what it makes; `intent`: what the client wants once. */
interface Told {
  readonly name: string
  readonly intent: string
  readonly said: "again" | "unknown" | "made"
  readonly id?: string
}

const tell = (intent: string, name: string, { status, headers, body }: Awaited<ReturnType<Api["post"]>>): Told => {
  if (status === 201) return { name, intent, said: "made", id: body.data.id }
  const said = headers.get("retry-after") === null ? "unknown" : "again"
  expect([status, body.error.code]).toEqual([503, said === "unknown" ? "outcome_unknown" : "service_unavailable"])
  return { name, intent, said }
}

const ready = () => eventually(async () => ((await fetch(`${server.origin}/readyz`)).status === 200 ? true : undefined))

/** Kills a backend that works for the server, if one does. */
const kill = () =>
  eventually(async () => {
    const [one] = await run(
      (sql) => sql<{ pid: number }>`
        SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'recurring-billing%' AND pid <> pg_backend_pid()
        ORDER BY state = 'active' DESC, random() LIMIT 1`,
    ).catch(() => [])
    if (one === undefined) return undefined
    process.kill(one.pid, "SIGKILL")
    return true
  })

it("what is to come again was not done, and nothing is done twice", async () => {
  const plan = await createPlan(api)
  const told: Array<Told> = []
  let isOver = false
  const client = async (no: number) => {
    const customer = await createCustomer(api)
    const [path, what] = no % 2 === 0 ? ["/charges", { amount: 1000, currency: "NGN" }] : ["/subscriptions", { plan }]
    for (let n = 0; !isOver; n++)
      for (let tried = 0, said = "again"; said === "again"; tried++) {
        const name = `${no} ${n} ${tried}`
        const body = { customer, payment_method: "pm_test_success", ...(what as object), metadata: { name } }
        const one = tell(`${no} ${n}`, name, await api.post(path as string, body))
        told.push(one)
        said = one.said
        if (said === "again") await ready()
      }
  }
  const clients = Promise.all(Array.from({ length: CLIENTS }, (_, no) => client(no)))
  for (let kills = 0; kills < KILLS; kills++) {
    const before = told.filter(({ said }) => said === "made").length
    await Promise.race([
      clients,
      eventually(async () =>
        told.filter(({ said }) => said === "made").length >= before + ANSWERED_BETWEEN ? true : undefined,
      ),
    ])
    await kill()
  }
  isOver = true
  await clients
  await ready()
  await eventually(async () => {
    const left = await run((sql) => sql`SELECT 1 FROM charge WHERE status = 'pending' LIMIT 1`).catch(() => undefined)
    return left?.length === 0 ? true : undefined
  })
  const made = await run(
    (sql) => sql<{ id: string; name: string }>`
      SELECT id, metadata->>'name' AS name FROM charge WHERE subscription_id IS NULL
      UNION ALL SELECT id, metadata->>'name' FROM subscription`,
  )
  const byName = Map.groupBy(made, ({ name }) => name)
  for (const { name, said, id } of told) {
    const its = byName.get(name) ?? []
    if (said === "again") expect([name, its]).toEqual([name, []])
    else if (said === "made") expect(its.map((one) => one.id)).toEqual([id])
    else expect(its.length).toBeLessThanOrEqual(1)
  }
  const times = Map.groupBy(
    told.filter(({ name }) => byName.has(name)),
    ({ intent }) => intent,
  )
  expect([...times].filter(([, its]) => its.length > 1)).toEqual([])
  // Else nothing was tried of all that.
  expect(told.filter(({ said }) => said === "again").length).toBeGreaterThan(0)
  expect(data(await api.get("/charges?status=failed"))).toEqual([])
  await expectSound({ run })
})
