/** Tests that a backlog survives its processes, and that events are kept for 30 days. */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { idBefore } from "../../src/base/ids.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { appendEvents } from "../../src/outbound/event/events.ts"
import { purgeEvents } from "../../src/outbound/webhook/housekeeping.ts"
import { createApi } from "../support/api.ts"
import { useDatabase } from "../support/database.ts"
import { lockUntilReleased } from "../support/hold.ts"
import { useReceiver } from "../support/receiver.ts"
import { startServer } from "../support/server.ts"
import { data, eventually } from "../support/story.ts"

const database = useDatabase()
const receiver = useReceiver()

const SETTINGS = { ALLOW_LOOPBACK_WEBHOOKS: "true" }
const EVENTS = 1_500

const append = (tenant: { account_id: string; livemode: boolean }, count: number) =>
  database.write((unit) =>
    appendEvents(
      unit,
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
  it("that could not be released is still delivered to, by the same process", async () => {
    const { keys, account } = await database.run(() => createAccount({ businessName: "Held" }))
    const tenant = { account_id: account.id, livemode: false }
    // A sequence number stays used when its transaction fails: the release fails once, in any process.
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

describe("a reset", () => {
  it("cancels what was in flight: only tries in progress arrive", async () => {
    const { keys } = await database.run(() => createAccount({ businessName: "Reset" }))
    const server = await startServer(database.url(), SETTINGS)
    const api = createApi(server.origin, keys.sk_test)
    const asked = Promise.withResolvers<() => void>()
    const received = () => receiver.at("/reset")
    const ofSame = () => received().filter(({ event }) => event.data.object.id === "same")
    let first = true
    receiver.answer("/reset", (_, response) => {
      if (first) asked.resolve(() => void response.writeHead(200).end())
      else response.writeHead(200).end()
      first = false
    })
    data(await api.post("/webhook-endpoints", { url: receiver.url("/reset"), enabled_events: ["*"] }), 201)
    // Of one object: each waits for the one before.
    for (let n = 0; n < 20; n++)
      data(await api.post("/test/events/trigger", { type: "made.up", overrides: { id: "same", n } }), 201)
    const answer = await asked.promise
    expect((await api.post("/test/reset", { confirm: "RESET" })).status).toBe(202)
    await eventually(async () => ((await api.post("/customers", { name: "After" })).status === 201 ? true : undefined))
    answer()
    data(await api.post("/test/events/trigger", { type: "made.up", overrides: { id: "other" } }), 201)
    await eventually(async () => (received().length > ofSame().length ? true : undefined))
    expect(ofSame()).toHaveLength(1)
    expect(await server.stop()).toBe(0)
  })
})

describe("a locked row", () => {
  it.each([
    ["of an endpoint", "SELECT 1 FROM webhook_endpoint WHERE account_id = $1 FOR UPDATE"],
    ["of a delivery", "SELECT 1 FROM webhook_delivery WHERE account_id = $1 FOR UPDATE"],
  ])("%s delays no other account's webhooks, and is written afterwards", async (row, lock) => {
    const merchant = async (name: string) => {
      const { keys, account } = await database.run(() => createAccount({ businessName: `${name} ${row}` }))
      return { keys, id: account.id, tenant: { account_id: account.id, livemode: false }, path: `/${account.id}` }
    }
    const [mine, other] = [await merchant("Held"), await merchant("Free")]
    const server = await startServer(database.url(), SETTINGS)
    // The first try of the locked one stays in progress until it is locked.
    const asked = Promise.withResolvers<() => void>()
    receiver.answer(mine.path, (_, response) => asked.resolve(() => void response.writeHead(500).end()))
    for (const { keys, path } of [mine, other]) {
      const api = createApi(server.origin, keys.sk_test)
      data(await api.post("/webhook-endpoints", { url: receiver.url(path), enabled_events: ["*"] }), 201)
    }
    await append(mine.tenant, 1)
    const answer = await asked.promise
    const locked = await lockUntilReleased(database, (sql) => sql.unsafe(lock, [mine.id]).unprepared)
    answer()
    const waiting = await locked.waiters()
    await append(other.tenant, 1)
    const statuses = async ({ id }: typeof mine) => {
      const rows = await database.run(
        (sql) => sql<{ status: string; attempt: number }>`
          SELECT status, attempt FROM webhook_delivery WHERE account_id = ${id}`,
      )
      return rows.map(({ status, attempt }) => `${status} ${attempt}`)
    }
    const becomes = (whose: typeof mine, status: string) =>
      eventually(async () => ((await statuses(whose)).join() === status ? true : undefined))
    await becomes(other, "succeeded 1")
    await locked.waitUntilLeft(waiting, 0)
    expect(await statuses(mine)).toEqual(["pending 0"])
    await locked.release()
    await becomes(mine, "pending 1")
    expect(await server.stop()).toBe(0)
  })
})

describe("events", () => {
  const DAY_MS = 24 * 60 * 60 * 1000
  const AGES = { "30 days and a minute": 30 * DAY_MS + 60_000, "30 days but a minute": 30 * DAY_MS - 60_000 }

  /** Events of one age, with a delivery of each. */
  const recorded = (account: string, livemode: boolean, ageMs: number, count: number) => {
    const at = Date.now() - ageMs
    return database.run(
      (sql) => sql`
        WITH made AS (
          INSERT INTO event (account_id, livemode, id, type, object_id, data, created_at, recorded_at)
          SELECT ${account}, ${livemode}::boolean, ${idBefore("event", at)} || lpad(n::text, 16, '0'), 'customer.created', 'cus_1', '{}', now(), to_timestamp(${at / 1000}::float8)
          FROM generate_series(1, ${count}::int) n RETURNING *
        )
        INSERT INTO webhook_delivery (account_id, livemode, id, event_id, webhook_endpoint_id, object_id)
        SELECT account_id, livemode, 'dlv' || substr(id, 4), id, 'we_none', object_id FROM made`,
    )
  }

  const left = (table: "event" | "webhook_delivery") =>
    database.run((sql) =>
      Effect.map(
        sql<{ name: string; live: number; sandbox: number }>`
          SELECT a.business_name AS name, count(*) FILTER (WHERE livemode) AS live, count(*) FILTER (WHERE NOT livemode) AS sandbox
          FROM ${sql(table)} e JOIN account a ON a.id = e.account_id GROUP BY 1 ORDER BY 1`,
        (rows) => rows.map(({ name, live, sandbox }) => `${name}: ${live} live, ${sandbox} sandbox`),
      ),
    )

  it("are kept for 30 days of wall-clock time, with their deliveries, however many are older", async () => {
    await database.run((sql) => sql`DELETE FROM event`)
    // More tenants without such events than one statement scans.
    await database.run(
      (sql) => sql`
        INSERT INTO account (id, business_name, created_at) SELECT 'acct_0' || lpad(n::text, 25, '0'), 'Empty', now() FROM generate_series(1, 3000) n`,
    )
    for (const [name, old, young] of [
      ["All old", 11_000, 0],
      ["Mixed", 6_000, 4],
      ["One", 1, 1],
      ["Young", 0, 5_001],
    ] as const) {
      const { account } = await database.run(() => createAccount({ businessName: name }))
      for (const livemode of [true, false]) {
        await recorded(account.id, livemode, AGES["30 days and a minute"], old)
        await recorded(account.id, livemode, AGES["30 days but a minute"], young)
      }
    }
    await database.run(() => purgeEvents())
    const kept = ["Mixed: 4 live, 4 sandbox", "One: 1 live, 1 sandbox", "Young: 5001 live, 5001 sandbox"]
    expect(await left("event")).toEqual(kept)
    expect(await left("webhook_delivery")).toEqual(kept)
  })

  it("of one age are found without scanning others, whatever was there before", async () => {
    // As pages are reused that deleted events have freed.
    for (let round = 0; round < 3; round++) {
      const { account } = await database.run(() => createAccount({ businessName: `Round ${round}` }))
      await recorded(account.id, true, AGES["30 days and a minute"], 2_000)
      await recorded(account.id, true, AGES["30 days but a minute"], 2_000)
      await database.run(() => purgeEvents())
      await database.run((sql) => sql`VACUUM event`.unprepared)
    }
    const read = () =>
      database.run((sql) =>
        Effect.gen(function* () {
          const fetched = Effect.map(
            sql<{ rows: number }>`
              SELECT coalesce(idx_tup_fetch, 0) + seq_tup_read AS rows FROM pg_stat_xact_user_tables WHERE relname = 'event'`,
            ([row]) => row!.rows,
          )
          const before = yield* fetched
          yield* purgeEvents()
          return (yield* fetched) - before
        }).pipe(sql.withTransaction),
      )
    expect(await read()).toBe(0)
    const { account } = await database.run(() => createAccount({ businessName: "Last" }))
    await recorded(account.id, true, AGES["30 days and a minute"], 10)
    expect(await read()).toBeLessThanOrEqual(20)
  })
})
