/** A backlog outlives the processes that deliver it, and events are kept for 30 days. */
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/account/accounts.ts"
import { appendEvents } from "../../src/event/events.ts"
import { purgeEvents } from "../../src/webhook/housekeeping.ts"
import { createApi } from "../support/api.ts"
import { useDatabase } from "../support/database.ts"
import { useReceiver } from "../support/receiver.ts"
import { startServer } from "../support/server.ts"
import { data, eventually } from "../support/story.ts"

const database = useDatabase()
const receiver = useReceiver()

const SETTINGS = { ALLOW_LOOPBACK_WEBHOOKS: "true" }
const EVENTS = 1_500

const append = (tenant: { account_id: string; livemode: boolean }, count: number) =>
  database.run(() =>
    appendEvents(
      Array.from({ length: count }, (_, n) => ({
        ...tenant,
        type: "charge.failed",
        object: { id: `chg_${n % 100}`, object: "charge", n },
        previous: {},
        test_clock_id: null,
        at: Date.now(),
      })),
    ),
  )

describe("a backlog", () => {
  it("loses nothing to kill -9, and repeats only with the same webhook-id, in order for each object", async () => {
    const { keys, account } = await database.run(() => createAccount({ businessName: "Backlog" }))
    const tenant = { account_id: account.id, livemode: false }
    let server = await startServer(database.url(), SETTINGS)
    const api = createApi(server.origin, keys.sk_test)
    for (const path of ["/a", "/b"])
      data(await api.post("/webhook-endpoints", { url: receiver.url(path), enabled_events: ["*"] }), 201)
    const events = await append(tenant, EVENTS)
    const arrived = () => receiver.at("/a").length + receiver.at("/b").length
    for (const progress of [200, 900, 1_800]) {
      await eventually(async () => (arrived() >= progress ? true : undefined))
      await server.kill()
      server = await startServer(database.url(), SETTINGS)
    }
    const [left] = await eventually(async () => {
      const rows = await database.run(
        (sql) => sql<{ status: string; n: number }>`SELECT status, count(*) AS n FROM webhook_delivery GROUP BY status`,
      )
      return rows.every(({ status }) => status !== "pending") ? rows : undefined
    })
    expect(left).toEqual({ status: "succeeded", n: 2 * EVENTS })
    for (const path of ["/a", "/b"]) {
      const bodies = new Map<string, string>()
      for (const { headers, body } of receiver.at(path)) {
        const id = String(headers["webhook-id"])
        expect(bodies.get(id) ?? body).toBe(body)
        bodies.set(id, body)
      }
      expect([...bodies.keys()].sort()).toEqual(events.map(({ id }) => id).sort())
      // First arrivals of each object come in order of creation.
      const lastOf = new Map<string, number>()
      for (const body of bodies.values()) {
        const { id, n } = JSON.parse(body).data.object
        expect(lastOf.get(id) ?? -1).toBeLessThan(n)
        lastOf.set(id, n)
      }
    }
    expect(await server.stop()).toBe(0)
  })
})

describe("an endpoint", () => {
  it("that could not be let go of is delivered to all the same, by the same process", async () => {
    const { keys, account } = await database.run(() => createAccount({ businessName: "Held" }))
    const tenant = { account_id: account.id, livemode: false }
    // A number that is drawn stays drawn when its transaction fails: letting go fails once, whoever does it.
    for (const statement of [
      "CREATE SEQUENCE letting_go",
      `CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN IF nextval('letting_go') = 1 THEN RAISE EXCEPTION 'The database fails for a moment.'; END IF; RETURN NEW; END $$`,
      `CREATE TRIGGER fail_once BEFORE UPDATE ON webhook_endpoint FOR EACH ROW
        WHEN (OLD.account_id = '${account.id}' AND OLD.runner IS NOT NULL AND NEW.runner IS NULL) EXECUTE FUNCTION fail_once()`,
    ])
      await database.run((sql) => sql.unsafe(statement).unprepared)
    const server = await startServer(database.url(), SETTINGS)
    const api = createApi(server.origin, keys.sk_test)
    data(await api.post("/webhook-endpoints", { url: receiver.url("/held"), enabled_events: ["*"] }), 201)
    await append(tenant, 1)
    await eventually(async () => {
      const [drawn] = await database.run((sql) => sql<{ is_called: boolean }>`SELECT is_called FROM letting_go`)
      return drawn!.is_called ? true : undefined
    })
    await append(tenant, 1)
    await eventually(async () => (receiver.at("/held").length === 2 ? true : undefined))
    expect(await server.stop()).toBe(0)
  })
})

describe("events", () => {
  it("are kept for 30 days of wall-clock time, with their deliveries", async () => {
    const { account } = await database.run(() => createAccount({ businessName: "Old" }))
    const rows = await append({ account_id: account.id, livemode: true }, 3)
    const age = (id: string, interval: string) =>
      database.run(
        (sql) => sql`UPDATE event SET recorded_at = now() - ${interval}::interval WHERE id = ${id} RETURNING 1`,
      )
    await age(rows[0]!.id, "30 days 1 minute")
    await age(rows[1]!.id, "29 days 23 hours")
    await database.run(() => purgeEvents())
    const left = await database.run((sql) => sql`SELECT id FROM event WHERE account_id = ${account.id} ORDER BY id`)
    expect(left).toEqual(rows.slice(1).map(({ id }) => ({ id })))
  })

  it("go in one run, however many are old", async () => {
    const { account } = await database.run(() => createAccount({ businessName: "Older" }))
    const of = (age: string, count: number) =>
      database.run(
        (sql) => sql`
          INSERT INTO event (account_id, livemode, id, type, object_id, data, created_at, recorded_at)
          SELECT ${account.id}, true, 'evt_' || gen_random_uuid(), 'customer.created', 'cus_1', '{}', now(), now() - ${age}::interval - n * interval '1 second'
          FROM generate_series(1, ${count}::int) n`,
      )
    await of("31 days", 11_000)
    await of("1 day", 3)
    await database.run(() => purgeEvents())
    const [left] = await database.run(
      (sql) => sql<{ count: number }>`SELECT count(*) AS count FROM event WHERE account_id = ${account.id}`,
    )
    expect(left!.count).toBe(3)
  })
})
