/**
 * The loads of hostile tenants: one for each way in which a tenant could affect others. A further load is an entry of `loads`.
 */
import { setTimeout as sleep } from "node:timers/promises"
import { Effect, Redacted } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { unitOfWork } from "../../src/db/UnitOfWork.ts"
import { appendEvents } from "../../src/outbound/event/events.ts"
import { generateKey } from "../../src/security/key/key.ts"
import { startServer } from "../server.ts"
import { type Client, FRESH, prepare, type Running, startClients } from "./isolation-clients.ts"
import { clockId, firstSubscription, seedClocks, seedExpired, seedLists } from "./isolation-seed.ts"
import { seed } from "./renewals-seed.ts"

export interface Tenant {
  readonly id: string
  readonly keys: Readonly<Record<"sk_test" | "pk_test" | "sk_live" | "pk_live", string>>
}

export type Run = <A>(work: Effect.Effect<A, SqlError.SqlError, SqlClient.SqlClient>) => Promise<A>

/** The targets and helpers of a load. */
export interface Place {
  readonly origin: string
  readonly quiet: Tenant
  readonly hostile: Tenant
  readonly accomplices: ReadonlyArray<Tenant>
  /** Runs statements outside the server. */
  readonly run: Run
  /** POSTs to the sandbox as the hostile tenant; returns the answer's status. */
  readonly post: (path: string, body: object) => Promise<number>
}

export interface Load {
  /** Its name for `--only`. */
  readonly name: string
  /** Its description in the table. */
  readonly what: string
  /** Fills the tables before the server starts. */
  readonly seed?: (
    tenants: Pick<Place, "hostile" | "accomplices">,
  ) => Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient>
  /** Starts it; the result stops it. */
  readonly start: (place: Place) => Promise<Running>
}

/** The requests a second of a tenant at the production limits. */
const SANDBOX_RATE = 50
const LIVE_RATE = 100
const CLOCKS_START = new Date("2025-01-01T00:00:00Z")
/** Deleted one after the other: large enough that deletions run during the whole measurement. */
const LARGE = { clocks: 4, customersEach: 10_000, eventsEach: 300_000, startAt: CLOCKS_START }
const DUE_AT_ONCE = 100_000
/** Enough time to prepare everything else. */
const FALL_DUE_AFTER_MS = 45_000
const SWEEPING_AFTER_MS = 1_000
const DAILY = { clocks: 8, customersEach: 50, eventsEach: 0, startAt: CLOCKS_START }
const LISTED_ROWS = 100_000
const EXPIRED_ROWS = 200_000
const ENDPOINTS = 16
const PLANS = 100
const CONFIG_BYTES = [245_000, 16_000]
const EVENT_BYTES = [255_000, 60_000, 15_000]
/** Events that are already waiting, as after a restart. */
const BACKLOG = 300

const range = (count: number): ReadonlyArray<number> => Array.from({ length: count }, (_, n) => n)
/** When the last seeded renewals are due. */
let dueAt = 0

const countRenewed = (account: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ n: number }>`
      SELECT count(*) AS n FROM event WHERE account_id = ${account} AND NOT livemode AND type = 'subscription.renewed'`
    return row!.n
  })

/** Text that uses twice as much memory as it has bytes, because of one letter. */
const filler = (bytes: number) => ({ filler: `₦${"x".repeat(bytes)}` })

/** A client that sends as many requests as it may. */
const asks = (
  requests: ReadonlyArray<Buffer>,
  rest: { readonly connections: number; readonly perSecond?: number },
): Client => ({
  manner: "asks",
  requests,
  ...rest,
})

/** Checks that the preparation of a load succeeded, so that the load is complete. */
const created = async (status: Promise<number>): Promise<void> => {
  if ((await status) !== 201) throw new Error(`not created, but ${await status}`)
}

/** Returns the largest of `sizes` that the service accepts here. */
const largestAccepted = async (
  sizes: ReadonlyArray<number>,
  post: (bytes: number) => Promise<number>,
): Promise<number> => {
  for (const bytes of sizes) if ((await post(bytes)) === 201) return bytes
  throw new Error("even the smallest size is refused")
}

const createCustomer = (key: string, metadata: object) =>
  prepare({
    method: "POST",
    path: key.startsWith("sk_live_") ? "/v1/customers" : "/sandbox/v1/customers",
    key,
    headers: { "idempotency-key": FRESH },
    body: JSON.stringify({ name: "Eve", metadata }),
  })

const trigger = (bytes: number) => ({ type: "charge.failed", overrides: filler(bytes) })

/** Appends events of an account in one transaction. */
const append = (account_id: string, count: number, bytes: number) => {
  const event = { account_id, livemode: false, type: "charge.failed", previous: {}, test_clock_id: null } as const
  return Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.withTransaction(
      Effect.map(unitOfWork, (unit) =>
        appendEvents(
          unit,
          range(count).map((n) => ({ ...event, object: { id: `chg_${n}`, ...filler(bytes) }, at: Date.now() })),
        ),
      ),
    ),
  )
}

export const loads: ReadonlyArray<Load> = [
  {
    name: "validation",
    what: "H1: bodies of 5,500 unknown keys (63 KB), queries of 2,400 parameters (15 KB)",
    start: ({ origin, hostile: { keys } }) => {
      const key = keys.sk_test
      const body = JSON.stringify(Object.fromEntries(range(5_500).map((n) => [`key${n}`, 0])))
      const query = range(2_400).map((n) => `${n.toString(36)}=1`)
      const requests = [
        prepare({ method: "POST", path: "/sandbox/v1/customers", key, body }),
        prepare({ path: `/sandbox/v1/customers?${query.join("&")}`, key }),
      ]
      return startClients(origin, [asks(requests, { connections: 8, perSecond: SANDBOX_RATE })])
    },
  },
  {
    name: "deliveries",
    what: "H2: 300 events as large as allowed, and ever more, to 16 endpoints that answer late or never",
    start: async ({ origin, hostile, run, post }) => {
      const receiver = await startServer({}, "scripts/bench/webhook-receiver.ts")
      for (const n of range(ENDPOINTS)) {
        const url = `${receiver.origin}/${n % 2 === 0 ? "slow" : "hang"}`
        await created(post("/webhook-endpoints", { url, enabled_events: ["*"] }))
      }
      const bytes = await largestAccepted(EVENT_BYTES, (size) => post("/test/events/trigger", trigger(size)))
      await run(append(hostile.id, BACKLOG, bytes))
      const request = prepare({
        method: "POST",
        path: "/sandbox/v1/test/events/trigger",
        key: hostile.keys.sk_test,
        body: JSON.stringify(trigger(bytes)),
      })
      const clients = await startClients(origin, [asks([request], { connections: 8, perSecond: SANDBOX_RATE })])
      return {
        stop: async () => {
          await receiver.kill()
          return clients.stop()
        },
      }
    },
  },
  {
    name: "pages",
    what: "H3: lists of 100 plans with the largest service_config, by clients that do not read",
    start: async ({ origin, hostile, post }) => {
      const create = (bytes: number) =>
        post("/plans", {
          name: "Large",
          amount: 10_000,
          currency: "NGN",
          billing_cycle: "monthly",
          service_config: filler(bytes),
        })
      const bytes = await largestAccepted(CONFIG_BYTES, create)
      for (const _ of range(PLANS - 1)) await created(create(bytes))
      const request = prepare({ path: "/sandbox/v1/plans?limit=100", key: hostile.keys.sk_test })
      return startClients(origin, [
        { manner: "ignores", requests: [request], connections: 300, perSecond: SANDBOX_RATE },
      ])
    },
  },
  {
    name: "locks",
    what: "H4: four clocks of 340,000 rows deleted, and 20 PATCHes at a time of a subscription on one",
    seed: ({ hostile }) => seedClocks(hostile.id, LARGE),
    start: ({ origin, hostile }) => {
      const key = hostile.keys.sk_test
      const deletions = range(LARGE.clocks).map((n) =>
        prepare({ method: "DELETE", path: `/sandbox/v1/test/clocks/${clockId(n + 1)}`, key }),
      )
      const changes = range(LARGE.clocks).map((n) =>
        prepare({
          method: "PATCH",
          path: `/sandbox/v1/subscriptions/${firstSubscription(n + 1, LARGE)}`,
          key,
          body: '{"quantity":2}',
        }),
      )
      return startClients(origin, [
        asks(deletions, { connections: 1, perSecond: 1 }),
        asks(changes, { connections: 20, perSecond: SANDBOX_RATE - 1 }),
      ])
    },
  },
  {
    name: "publishable",
    what: "H6: a flood with the quiet tenant's publishable keys, and with others, from one address",
    start: ({ origin, quiet, hostile, accomplices }) => {
      const sandbox = ({ keys }: Tenant) => prepare({ path: "/sandbox/v1/client/config", key: keys.pk_test })
      const live = ({ keys }: Tenant) => prepare({ path: "/v1/client/config", key: keys.pk_live })
      return startClients(origin, [
        asks([sandbox(quiet)], { connections: 12 }),
        asks([live(quiet)], { connections: 12 }),
        asks([hostile, ...accomplices].map(sandbox), { connections: 8 }),
      ])
    },
  },
  {
    name: "lists",
    what: "M1: four tenants list 100,000 customers and events by values that do not exist",
    seed: ({ hostile, accomplices }) =>
      Effect.forEach([hostile, ...accomplices], ({ id }) => seedLists(id, LISTED_ROWS), { discard: true }),
    start: ({ origin, hostile, accomplices }) => {
      const paths = [
        "customers?metadata[tier]=none",
        "customers?email=nobody@example.com",
        "events?created_after=2020-01-01T00:00:00Z&created_before=2020-01-02T00:00:00Z",
        "events?created_after=2020-01-01T00:00:00Z&type=charge.none",
      ]
      return startClients(
        origin,
        [hostile, ...accomplices].map(({ keys }) =>
          asks(
            paths.map((path) => prepare({ path: `/sandbox/v1/${path}`, key: keys.sk_test })),
            { connections: 16, perSecond: SANDBOX_RATE },
          ),
        ),
      )
    },
  },
  {
    name: "clocks",
    what: "M3: eight clocks with 50 daily subscriptions each, advanced by a year",
    seed: ({ hostile }) => seedClocks(hostile.id, DAILY),
    start: ({ origin, hostile }) => {
      const advances = range(DAILY.clocks).map((n) =>
        prepare({
          method: "POST",
          path: `/sandbox/v1/test/clocks/${clockId(n + 1)}/advance`,
          key: hostile.keys.sk_test,
          body: '{"frozen_time":"2026-01-01T00:00:00Z"}',
        }),
      )
      return startClients(origin, [asks(advances, { connections: DAILY.clocks, perSecond: DAILY.clocks })])
    },
  },
  {
    name: "renewals",
    what: `${DUE_AT_ONCE.toLocaleString("en-US")} renewals that fall due at one instant`,
    seed: ({ hostile }) => {
      dueAt = Date.now() + FALL_DUE_AFTER_MS
      return seed(DUE_AT_ONCE, 0, { account: hostile.id, dueAt })
    },
    start: async ({ hostile, run }) => {
      await sleep(Math.max(0, dueAt - Date.now()) + SWEEPING_AFTER_MS)
      const startedAt = performance.now()
      return {
        stop: async () => {
          const sent = await run(countRenewed(hostile.id))
          return { sent, answers: { renewed: sent }, ms: performance.now() - startedAt }
        },
      }
    },
  },
  {
    name: "refused",
    what: "M4: unknown keys, bad signatures of callbacks and /readyz",
    start: ({ origin }) => {
      const unknown = range(100).map(() =>
        prepare({ path: "/sandbox/v1/customers", key: Redacted.value(generateKey("secret", false).key) }),
      )
      const callback = prepare({
        method: "POST",
        path: "/callbacks/whatsapp/all",
        headers: { "x-hub-signature-256": `sha256=${"0".repeat(64)}` },
        body: JSON.stringify(filler(1_000)),
      })
      return startClients(origin, [
        asks(unknown, { connections: 12 }),
        asks([callback], { connections: 10 }),
        asks([prepare({ path: "/readyz" })], { connections: 10 }),
      ])
    },
  },
  {
    name: "idempotency",
    what: "M8: POSTs with fresh Idempotency-Keys, with 200,000 expired records",
    seed: ({ hostile }) => seedExpired(hostile.id, EXPIRED_ROWS),
    start: ({ origin, hostile: { keys } }) => {
      const metadata = Object.fromEntries(range(20).map((n) => [`key${n}`, "x".repeat(500)]))
      const large = prepare({
        method: "POST",
        path: "/sandbox/v1/test/events/trigger",
        key: keys.sk_test,
        headers: { "idempotency-key": FRESH },
        body: JSON.stringify(trigger(200_000)),
      })
      return startClients(origin, [
        asks([createCustomer(keys.sk_live, metadata)], { connections: 16, perSecond: LIVE_RATE }),
        asks([createCustomer(keys.sk_test, metadata), large], { connections: 16, perSecond: SANDBOX_RATE }),
      ])
    },
  },
  {
    name: "connections",
    what: "half of a 256 KB body to /callbacks/… on 1,000 connections, nothing at all on 2,000",
    start: ({ origin }) => {
      const half = prepare({
        method: "POST",
        path: "/callbacks/whatsapp/all",
        length: 256 * 1024,
        body: "x".repeat(128 * 1024),
      })
      return startClients(origin, [
        { manner: "waits", requests: [half], connections: 1_000, perSecond: 500 },
        { manner: "waits", requests: [Buffer.alloc(0)], connections: 2_000, perSecond: 1_000 },
      ])
    },
  },
]
