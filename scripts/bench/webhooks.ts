/**
 * Measures webhook deliveries per second to a receiver on this machine, compared with a bare loop of the same signed POSTs at the same
 * concurrency; and the latency of deliveries while a dead endpoint has a long backlog.
 *
 *   npm run bench:webhooks -- --events 20000 --endpoints 20 --backlog 200000
 */
import { Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Agent, request } from "undici"
import { servicesLayer } from "../../src/app/services.ts"
import { unitOfWork } from "../../src/db/UnitOfWork.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { appendEvents, type NewEvent, renderEvent } from "../../src/outbound/event/events.ts"
import { deliveryWorker } from "../../src/outbound/webhook/deliveryWorker.ts"
import { createEndpoint } from "../../src/outbound/webhook/endpoints.ts"
import { Sender } from "../../src/outbound/webhook/Sender.ts"
import { signedHeaders } from "../../src/outbound/webhook/signature.ts"
import { Deletions } from "../../src/process/deletion/Deletions.ts"
import { KEYS, startServer } from "../server.ts"
import { rate, sizes, startInstance } from "./instance.ts"

const { events, endpoints, backlog, timed } = sizes({ events: 20_000, endpoints: 20, backlog: 200_000, timed: 200 })

/** The engine's concurrency for one endpoint. */
const CONCURRENCY = 16
const APPEND_BATCH = 1_000
const LOOK_EVERY_MS = 20
const TIMED_EVERY_MS = 50

const instance = await startInstance()
const url = await instance.database("webhooks")
const receiver = await startServer({}, "scripts/bench/webhook-receiver.ts")

const charge = {
  id: "chg_01m7yyp0a6e08v7r97jkyz1pj0",
  object: "charge",
  amount: 500_000,
  currency: "NGN",
  status: "failed",
  failure_code: "insufficient_funds",
  metadata: { order: "1234" },
}

const services = Layer.merge(
  Layer.provideMerge(Deletions.layer, servicesLayer(url, KEYS)),
  Sender.layer({ allowLoopback: true, dnsServers: [] }),
)

/** Creates an account with one endpoint at `path`. */
const addEndpoint = (path: string) =>
  Effect.gen(function* () {
    const { account } = yield* createAccount({ businessName: "Bench" })
    const tenant = { account_id: account.id, livemode: false }
    yield* createEndpoint(tenant, { url: `${receiver.origin}${path}`, enabled_events: ["*"] })
    return tenant
  })

const writeEvents = (events: ReadonlyArray<NewEvent>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.withTransaction(Effect.map(unitOfWork, (unit) => appendEvents(unit, events))),
  )

const append = (tenant: { account_id: string; livemode: boolean }, from: number, count: number) =>
  writeEvents(
    Array.from({ length: count }, (_, n) => ({
      ...tenant,
      type: "charge.failed",
      // Each event has a different object: no delivery waits for another.
      object: { ...charge, id: `chg_${from + n}` },
      previous: {},
      test_clock_id: null,
      at: Date.now(),
    })),
  )

const appendMany = (tenant: { account_id: string; livemode: boolean }, total: number) =>
  Effect.gen(function* () {
    for (let from = 0; from < total; from += APPEND_BATCH)
      yield* append(tenant, from, Math.min(APPEND_BATCH, total - from))
  })

interface Counted {
  readonly count: number
  readonly lastAt: number
  readonly arrivals: Readonly<Record<string, number>>
}

/** The arrivals since the last call. */
const counted = Effect.promise(async () => (await (await request(`${receiver.origin}/count`)).body.json()) as Counted)

const arrivedSince = (total: number) =>
  Effect.gen(function* () {
    let seen = 0
    const arrivals: Record<string, number> = {}
    for (;;) {
      const now = yield* counted
      seen += now.count
      Object.assign(arrivals, now.arrivals)
      if (seen >= total) return { lastAt: now.lastAt, arrivals }
      yield* Effect.sleep(LOOK_EVERY_MS)
    }
  })

const engine = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tenants = yield* Effect.forEach(Array.from({ length: endpoints }), () => addEndpoint("/"))
  const each = Math.floor(events / endpoints)
  for (const tenant of tenants) yield* appendMany(tenant, each)
  yield* sql`ANALYZE`.unprepared
  yield* counted
  const before = Date.now()
  yield* deliveryWorker
  const { lastAt } = yield* arrivedSince(each * endpoints)
  return rate(each * endpoints, lastAt - before)
}).pipe(Effect.scoped)

/** A bare loop: each request waits only for the one before it in its slot; no result is read or stored. */
const bare = Effect.promise(async () => {
  const secret = Redacted.make("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=")
  const agent = new Agent({ connections: CONCURRENCY * endpoints })
  const body = JSON.stringify(
    renderEvent({
      livemode: false,
      id: "evt_01m7yyp0a6e08v7r97jkyz1pj0",
      type: "charge.failed",
      data: JSON.stringify({ object: charge, previous_attributes: {} }),
      created_at: Date.now(),
    }),
  )
  let left = events
  const before = performance.now()
  const place = async () => {
    while (left-- > 0) {
      const answer = await request(receiver.origin, {
        method: "POST",
        dispatcher: agent,
        headers: { "content-type": "application/json", ...signedHeaders("evt_bench", Date.now(), body, [secret]) },
        body,
      })
      await answer.body.dump()
    }
  }
  await Promise.all(Array.from({ length: CONCURRENCY * endpoints }, place))
  const ms = performance.now() - before
  await agent.close()
  return rate(events, ms)
})

const percentile = (values: ReadonlyArray<number>, part: number): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length * part)]!

/** Measures the time from an event's commit to its delivery, one event at a time. */
const latencies = (tenant: { account_id: string; livemode: boolean }) =>
  Effect.gen(function* () {
    const sent = new Map<string, number>()
    yield* counted
    for (let n = 0; n < timed; n++) {
      const [event] = yield* append(tenant, n, 1)
      sent.set(event!.id, Date.now())
      yield* Effect.sleep(TIMED_EVERY_MS)
    }
    const { arrivals } = yield* arrivedSince(timed)
    return [...sent].map(([id, at]) => arrivals[id]! - at)
  })

const dead = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tenant = yield* addEndpoint("/timed")
  yield* deliveryWorker
  const without = yield* latencies(tenant)
  yield* appendMany(yield* addEndpoint("/hang"), backlog)
  yield* sql`ANALYZE`.unprepared
  const beside = yield* latencies(tenant)
  return { without, beside }
}).pipe(Effect.scoped)

const program = Effect.gen(function* () {
  const before = yield* bare
  const ours = yield* engine
  const reference = Math.round((before + (yield* bare)) / 2)
  console.log(
    `${events} events to ${endpoints} endpoints: ${ours} deliveries/s, bare loop ${reference}: ${(ours / reference).toFixed(2)}`,
  )
  const { without, beside } = yield* dead
  const shown = (values: ReadonlyArray<number>) =>
    `${percentile(values, 0.5)} ms, 95 % within ${percentile(values, 0.95)} ms`
  console.log(`latency without a backlog: ${shown(without)}`)
  console.log(`beside a dead endpoint with ${backlog} waiting: ${shown(beside)}`)
})

await Effect.runPromise(program.pipe(Effect.provide(services), Effect.scoped))
await receiver.kill()
instance.stop()
process.exit(0)
