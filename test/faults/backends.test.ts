/** Kills Postgres backends repeatedly while clients without an Idempotency-Key follow `Retry-After` (decision N4). */
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
/** The requests that are answered between two kills. */
const ANSWERED_BETWEEN = 20

/** A separate Postgres: a killed backend takes all connections of its server with it. */
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

/** The answers to each client's tries, by the made object's name. `intent`: the one result the client wants. */
interface Reply {
  readonly name: string
  readonly intent: string
  readonly kind: "again" | "unknown" | "made"
  readonly id?: string
}

const readReply = (
  intent: string,
  name: string,
  { status, headers, body }: Awaited<ReturnType<Api["post"]>>,
): Reply => {
  if (status === 201) return { name, intent, kind: "made", id: body.data.id }
  const kind = headers.get("retry-after") === null ? "unknown" : "again"
  expect([status, body.error.code]).toEqual([503, kind === "unknown" ? "outcome_unknown" : "service_unavailable"])
  return { name, intent, kind }
}

const ready = () => eventually(async () => ((await fetch(`${server.origin}/readyz`)).status === 200 ? true : undefined))

/** Kills a backend that works for the server, if there is one. */
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

it("a request that must be retried was not done, and no request is done twice", async () => {
  const plan = await createPlan(api)
  const replies: Array<Reply> = []
  let isOver = false
  const client = async (no: number) => {
    const customer = await createCustomer(api)
    const [path, fields] = no % 2 === 0 ? ["/charges", { amount: 1000, currency: "NGN" }] : ["/subscriptions", { plan }]
    for (let n = 0; !isOver; n++)
      for (let tried = 0, answer = "again"; answer === "again"; tried++) {
        const name = `${no} ${n} ${tried}`
        const body = { customer, payment_method: "pm_test_success", ...(fields as object), metadata: { name } }
        const one = readReply(`${no} ${n}`, name, await api.post(path as string, body))
        replies.push(one)
        answer = one.kind
        if (answer === "again") await ready()
      }
  }
  const clients = Promise.all(Array.from({ length: CLIENTS }, (_, no) => client(no)))
  for (let kills = 0; kills < KILLS; kills++) {
    const before = replies.filter(({ kind }) => kind === "made").length
    await Promise.race([
      clients,
      eventually(async () =>
        replies.filter(({ kind }) => kind === "made").length >= before + ANSWERED_BETWEEN ? true : undefined,
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
  for (const { name, kind, id } of replies) {
    const named = byName.get(name) ?? []
    if (kind === "again") expect([name, named]).toEqual([name, []])
    else if (kind === "made") expect(named.map((one) => one.id)).toEqual([id])
    else expect(named.length).toBeLessThanOrEqual(1)
  }
  const times = Map.groupBy(
    replies.filter(({ name }) => byName.has(name)),
    ({ intent }) => intent,
  )
  expect([...times].filter(([, named]) => named.length > 1)).toEqual([])
  // Otherwise no case was tested.
  expect(replies.filter(({ kind }) => kind === "again").length).toBeGreaterThan(0)
  expect(data(await api.get("/charges?status=failed"))).toEqual([])
  await expectSound({ run })
})
