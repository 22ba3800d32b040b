/** Tests unwritable outputs: of a server, and of its database. */
import { once } from "node:events"
import { Effect } from "effect"
import { expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createApi } from "../support/api.ts"
import { useDatabase } from "../support/database.ts"
import { startServer } from "../support/server.ts"
import { createCustomer, eventually } from "../support/story.ts"

const database = useDatabase()

it("a server continues if its log lines cannot be written", async () => {
  const { keys } = await database.run(() => createAccount({ businessName: "Unheard" }))
  const server = await startServer(database.url(), { LOG_LEVEL: "info" })
  const api = createApi(server.origin, keys.sk_test)
  await createCustomer(api)
  const { stdout, stderr } = server.process
  for (const stream of [stdout!, stderr!]) {
    const closed = once(stream, "close")
    stream.destroy()
    await closed
  }
  for (let n = 0; n < 20; n++) await createCustomer(api)
  expect(await server.stop()).toBe(0)
})

it("a database that refuses writes is not ready, and writes get a temporary refusal", async () => {
  const { keys } = await database.run(() => createAccount({ businessName: "Standby" }))
  const server = await startServer(database.url())
  const api = createApi(server.origin, keys.sk_test)
  await createCustomer(api)
  /** As after a failover to a standby that is not promoted yet. */
  const becomes = (setting: "on" | "off") =>
    database.run(
      (sql) =>
        sql.unsafe(`
        DO $$ BEGIN
          EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = ${setting}', current_database());
          PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'recurring-billing%' AND pid <> pg_backend_pid();
        END $$`).unprepared,
    )
  const ready = (status: number, body: string) =>
    eventually(async () => {
      const answer = await fetch(`${server.origin}/readyz`)
      return answer.status === status && (await answer.text()) === `{"status":"${body}"}` ? true : undefined
    })
  await becomes("on")
  await ready(503, "database read-only")
  for (let n = 0; n < 5; n++) {
    const refused = await api.post("/customers", { name: "Ada Obi" })
    expect([refused.status, refused.body.error.code]).toEqual([503, "service_unavailable"])
    expect(refused.headers.get("retry-after")).toMatch(/^\d+$/)
  }
  await becomes("off")
  await ready(200, "ready")
  await eventually(async () => ((await api.post("/customers", { name: "Ada Obi" })).status === 201 ? true : undefined))
  expect(await server.stop()).toBe(0)
})

it("a database with a full disk is not ready: a probe write once a second detects it and leaves nothing", async () => {
  const server = await startServer(database.url())
  const run = (...statements: ReadonlyArray<string>) =>
    database.run((sql) => Effect.forEach(statements, (statement) => sql.unsafe(statement).unprepared))
  const asked = async () => {
    const answer = await fetch(`${server.origin}/readyz`)
    return [answer.status, await answer.text()]
  }
  const becomes = (expected: readonly [number, string]) =>
    eventually(async () => ((await asked()).join() === expected.join() ? true : undefined))
  // A sequence counts rolled-back writes too.
  await run(
    "CREATE SEQUENCE probes",
    "CREATE FUNCTION count_probe() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('probes'); RETURN new; END $$",
    "CREATE TRIGGER counted BEFORE INSERT ON write_probe FOR EACH ROW EXECUTE FUNCTION count_probe()",
  )
  const since = performance.now()
  for (let n = 0; n < 5; n++) {
    const answers = await Promise.all(Array.from({ length: 50 }, asked))
    expect(new Set(answers.map(String))).toEqual(new Set(['200,{"status":"ready"}']))
  }
  await eventually(async () => {
    await asked()
    const [row] = await database.run((sql) => sql<{ n: number }>`SELECT last_value AS n FROM probes`)
    return row!.n > 1 ? true : undefined
  })
  const [{ tries, left }] = (await database.run(
    (sql) =>
      sql<{
        tries: number
        left: number
      }>`SELECT last_value AS tries, (SELECT count(*) FROM write_probe) AS left FROM probes`,
  )) as [{ tries: number; left: number }]
  expect(left).toBe(0)
  expect(tries).toBeLessThanOrEqual(1 + (performance.now() - since) / 1_000)
  await run(
    `CREATE FUNCTION refuse_probe() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$`,
    "CREATE TRIGGER refused AFTER INSERT ON write_probe FOR EACH ROW EXECUTE FUNCTION refuse_probe()",
  )
  await becomes([503, '{"status":"database full"}'])
  await run("DROP TRIGGER refused ON write_probe")
  await becomes([200, '{"status":"ready"}'])
  expect(await server.stop()).toBe(0)
})
