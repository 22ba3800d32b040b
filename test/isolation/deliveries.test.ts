/** Tests that deliveries are bounded in bytes: an account's large events leave memory and room for others. */
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { appendEvents, eventBody } from "../../src/outbound/event/events.ts"
import { Bodies } from "../../src/outbound/webhook/Bodies.ts"
import type { Waiting } from "../../src/outbound/webhook/deliver.ts"
import { EndpointQueues } from "../../src/outbound/webhook/EndpointQueues.ts"
import type { EndpointRow } from "../../src/outbound/webhook/endpoint.ts"
import type { Outgoing, TryResult } from "../../src/outbound/webhook/Sender.ts"
import { createApi } from "../support/api.ts"
import { useDatabase } from "../support/database.ts"
import { useReceiver } from "../support/receiver.ts"
import { startServer } from "../support/server.ts"
import { data, eventually } from "../support/story.ts"

const KIB = 1024
const MIB = 1024 * KIB
const MAX_BYTES = 64 * MIB
/** An eighth of the free room if one account alone takes it: x = (64 MiB - x) / 8. */
const ALONE_BYTES = MAX_BYTES / 9

let seq = 0
const waiting = (account: number, endpoint: number, event: number, bytes: number, object = event): Waiting => ({
  account_id: `acct_${account}`,
  livemode: false,
  id: `dlv_${++seq}`,
  seq,
  webhook_endpoint_id: `we_${account}_${endpoint}`,
  object_id: `obj_${account}_${object}`,
  once: false,
  attempt: 0,
  event_id: `evt_${account}_${event}`,
  bytes,
})

/** Loads the missing bodies, as the worker does. */
const loadAll = (bodies: Bodies, bodyOf = (id: string) => `body of ${id}`) => {
  let reads = 0
  for (let { missing } = bodies; missing.length > 0; { missing } = bodies, reads++)
    bodies.load(missing, new Map(missing.map(({ id }) => [id, bodyOf(id)])))
  return reads
}

describe("the room for bodies", () => {
  it("never exceeds its limit, is given back whole, and has one body for each event", () => {
    const met = { refused: 0, alone: 0, shared: 0 }
    const step = (account: number, endpoint: number, event: number, bytes: number) => ({
      account,
      endpoint,
      event,
      bytes,
      releases: false,
    })
    const steps = fc.array(
      fc.record({
        account: fc.nat(3),
        endpoint: fc.nat(3),
        event: fc.nat(5),
        bytes: fc.oneof(fc.integer({ min: 1, max: 500 }), fc.integer({ min: 1, max: 12_000 })),
        releases: fc.boolean(),
      }),
      { maxLength: 100 },
    )
    fc.assert(
      fc.property(steps, (all) => {
        const bodies = new Bodies(10_000)
        const kept: Array<Waiting> = []
        const sizes = new Map<number, number>()
        for (const { account, endpoint, event, bytes, releases } of all) {
          if (releases) {
            const [first] = kept.splice(0, 1)
            if (first !== undefined) bodies.release(first)
          } else {
            // An event has one size.
            const eventBytes = sizes.get(event) ?? bytes
            sizes.set(event, eventBytes)
            const delivery = waiting(account, endpoint, event, eventBytes)
            const wasFree = kept.length === 0
            const taken = bodies.take(delivery)
            if (wasFree) expect(taken).toBe(true)
            if (taken) kept.push(delivery)
            else met.refused++
          }
          const total = kept.reduce((sum, one) => sum + one.bytes, 0)
          expect(bodies.bytes).toBe(total)
          if (total > 10_000) {
            met.alone++
            expect(kept).toHaveLength(1)
          }
          loadAll(bodies)
          const events = new Set(kept.map(({ event_id }) => event_id))
          expect(bodies.size).toBe(events.size)
          if (events.size < kept.length) met.shared++
          for (const one of kept) expect(bodies.of(one)).toBe(`body of ${one.event_id}`)
        }
        for (const one of kept) bodies.release(one)
        expect([bodies.bytes, bodies.size, bodies.reservedBy("acct_0"), bodies.reservedBy("we_0_0")]).toEqual([
          0, 0, 0, 0,
        ])
      }),
      // Each case occurs with any seed: larger than all the room, refused beside others, an event of two endpoints.
      { examples: [[[step(0, 0, 0, 12_000), step(1, 0, 1, 1)]], [[step(0, 0, 0, 1), step(0, 1, 0, 1)]]] },
    )
    expect(Math.min(...Object.values(met))).toBeGreaterThan(0)
  })

  it("has some left for an account with little, though fifty accounts take their maximum", () => {
    const bodies = new Bodies()
    let event = 0
    const takeAll = (account: number) => {
      for (let refused = 0, endpoint = 0; refused < 32; endpoint++)
        refused = bodies.take(waiting(account, endpoint % 32, event++, 64 * KIB)) ? 0 : refused + 1
    }
    takeAll(0)
    expect(bodies.reservedBy("acct_0")).toBeGreaterThan(5 * MIB)
    expect(bodies.reservedBy("acct_0")).toBeLessThanOrEqual(ALONE_BYTES)
    for (let account = 1; account < 50; account++) takeAll(account)
    expect(bodies.bytes).toBeLessThanOrEqual(MAX_BYTES)
    expect(bodies.take(waiting(50, 0, event++, 64 * KIB))).toBe(true)
  })

  it("that an endpoint takes leaves some for the account's others", () => {
    const bodies = new Bodies()
    let taken = 0
    while (bodies.take(waiting(0, 0, taken, 64 * KIB))) taken++
    // A 256th of the free room.
    expect(taken).toBe(3)
    for (let endpoint = 1; endpoint < 32; endpoint++)
      expect(bodies.take(waiting(0, endpoint, endpoint, 64 * KIB))).toBe(true)
  })

  it("is given to an event larger than its share if its account uses none, and to one larger than all if none is in use", () => {
    const bodies = new Bodies()
    const [small, large] = [waiting(0, 0, 1, 1), waiting(0, 0, 2, 20 * MIB)]
    expect(bodies.take(small)).toBe(true)
    expect(bodies.take(large)).toBe(false)
    bodies.release(small)
    expect(bodies.take(large)).toBe(true)
    const huge = waiting(1, 0, 3, 100 * MIB)
    expect(bodies.take(huge)).toBe(false)
    bodies.release(large)
    expect(bodies.take(huge)).toBe(true)
  })

  it("is filled by few statements, each of which reads little", () => {
    const bodies = new Bodies()
    for (let account = 0; account < 40; account++)
      for (let event = 0; event < 10; event++) bodies.take(waiting(account, 0, event, 20 * KIB))
    const { missing } = bodies
    expect(missing.length * 20 * KIB).toBeLessThanOrEqual(8 * MIB)
    expect(missing.length).toBeGreaterThan(300)
    expect(loadAll(bodies)).toBe(1)
    expect(bodies.take(waiting(50, 0, 0, 9 * MIB))).toBe(true)
    expect(bodies.missing).toHaveLength(1)
  })
})

const endpointRow = (account: number, endpoint: number): EndpointRow => ({
  account_id: `acct_${account}`,
  livemode: false,
  id: `we_${account}_${endpoint}`,
  slot: endpoint + 1,
  url: `https://shop.example/${account}/${endpoint}`,
  description: null,
  enabled_events: ["*"],
  state: "enabled",
  version: 0,
  disabled_reason: null,
  given_up_to: 0,
  runner: null,
  failures: 0,
  failing_since: null,
  created_at: 0,
})

/** Queues that send nothing: tries stay in progress until the test ends them. */
const createLanes = () => {
  const underWay: Array<{ readonly sent: Outgoing; readonly end: () => void }> = []
  const sent: Array<Outgoing> = []
  const fine: TryResult = { delivered: true, status: 200, body: "", failure: null, durationMs: 1, retryAfterMs: null }
  const send = (outgoing: Outgoing) =>
    new Promise<TryResult>((resolve) => {
      sent.push(outgoing)
      underWay.push({ sent: outgoing, end: () => resolve(fine) })
    })
  const lanes = new EndpointQueues({ send, check: () => expect.unreachable() })
  /** A round of the worker, without its database. */
  const round = () => {
    const { tried } = lanes
    for (const { queue, delivery } of tried) queue.recorded(delivery.seq)
    lanes.recorded(tried)
    lanes.takeRoom()
    loadAll(lanes.bodies, (id) => `${id} ${"x".repeat(10)}`)
    for (const lane of lanes.all) lanes.start(lane)
  }
  /** Ends tries in progress, and runs the steps that follow. */
  const end = async (which: (outgoing: Outgoing) => boolean) => {
    for (const one of underWay.filter(({ sent }) => which(sent))) {
      underWay.splice(underWay.indexOf(one), 1)
      one.end()
    }
    await new Promise((resolve) => setImmediate(resolve))
  }
  return { lanes, sent, underWay, round, end }
}

describe("endpoint queues", () => {
  it("send 300 events of 255 KB to 16 endpoints in order, with 7.1 MiB in memory at most", async () => {
    const { lanes, sent, underWay, round, end } = createLanes()
    for (let endpoint = 0; endpoint < 16; endpoint++) lanes.add(endpointRow(0, endpoint))
    for (let event = 0; event < 300; event++)
      for (let endpoint = 0; endpoint < 16; endpoint++)
        lanes.get(`we_0_${endpoint}`)!.add(waiting(0, endpoint, event, 255_000, event % 7))
    let most = 0
    for (round(); lanes.all.some((lane) => !lane.idle); round()) {
      most = Math.max(most, lanes.bodies.bytes)
      // One event is in progress for several endpoints, in one copy.
      expect(lanes.bodies.size).toBeLessThanOrEqual(Math.ceil(ALONE_BYTES / 255_000))
      expect(underWay.length).toBeGreaterThan(0)
      await end(() => true)
    }
    expect(most).toBeGreaterThan(ALONE_BYTES / 2)
    expect(most).toBeLessThanOrEqual(ALONE_BYTES)
    expect([lanes.bodies.bytes, lanes.bodies.size]).toEqual([0, 0])
    for (let endpoint = 0; endpoint < 16; endpoint++) {
      const ids = sent.filter(({ url }) => url.endsWith(`/${endpoint}`)).map(({ id }) => Number(id.split("_")[2]))
      expect(ids.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 300 }, (_, n) => n))
      for (let object = 0; object < 7; object++) {
        const objectIds = ids.filter((id) => id % 7 === object)
        expect(objectIds).toEqual(objectIds.toSorted((a, b) => a - b))
      }
    }
  })

  it("continue beside accounts whose endpoints do not answer", async () => {
    const { lanes, sent, round, end } = createLanes()
    // Ten accounts with the maximum of endpoints, each with more than it may take.
    for (let account = 1; account <= 10; account++)
      for (let endpoint = 0; endpoint < 32; endpoint++) {
        lanes.add(endpointRow(account, endpoint))
        for (let event = 0; event < 50; event++)
          lanes.get(`we_${account}_${endpoint}`)!.add(waiting(account, endpoint, 100 * endpoint + event, 64 * KIB))
      }
    for (let n = 0; n < 5; n++) round()
    const silent = lanes.bodies.bytes
    expect(silent).toBeLessThanOrEqual((MAX_BYTES * 10) / 18)
    lanes.add(endpointRow(0, 0))
    for (let event = 0; event < 40; event++) lanes.get("we_0_0")!.add(waiting(0, 0, event, 64 * KIB))
    const isQuiet = ({ url }: Outgoing) => url.includes("/0/0")
    for (let n = 0; n < 40; n++) {
      round()
      await end(isQuiet)
    }
    expect(sent.filter(isQuiet).map(({ id }) => id)).toEqual(Array.from({ length: 40 }, (_, n) => `evt_0_${n}`))
    expect(lanes.bodies.bytes).toBe(silent)
  })

  it("that are removed during a try are not idle until its outcome is written", async () => {
    const { lanes, round, end } = createLanes()
    lanes.add(endpointRow(0, 0))
    lanes.get("we_0_0")!.add(waiting(0, 0, 0, 1_000))
    round()
    lanes.get("we_0_0")!.clear()
    lanes.remove("we_0_0")
    expect([lanes.size, lanes.isIdle]).toEqual([0, false])
    await end(() => true)
    expect(lanes.isIdle).toBe(false)
    round()
    expect(lanes.isIdle).toBe(true)
  })

  it("take turns if there is room for one at a time", async () => {
    const { lanes, sent, round, end } = createLanes()
    for (const account of [0, 1, 2]) {
      lanes.add(endpointRow(account, 0))
      for (let event = 0; event < 3; event++) lanes.get(`we_${account}_0`)!.add(waiting(account, 0, event, 60 * MIB))
    }
    for (let n = 0; n < 9; n++) {
      round()
      await end(() => true)
    }
    expect(sent).toHaveLength(9)
    for (const first of [0, 3, 6]) {
      const accounts = sent.slice(first, first + 3).map(({ id }) => id.split("_")[1])
      expect(accounts.toSorted()).toEqual(["0", "1", "2"])
    }
  })

  it("drop deliveries whose event is deleted meanwhile, and all bodies when they are cleared", () => {
    const { lanes, sent } = createLanes()
    lanes.add(endpointRow(0, 0))
    const lane = lanes.get("we_0_0")!
    for (const event of [1, 2, 3]) lane.add(waiting(0, 0, event, 10, 1))
    lanes.takeRoom()
    // Nothing is sent before the deliveries in front of it are loaded.
    lanes.bodies.load([{ account_id: "acct_0", livemode: false, id: "evt_0_2" }], new Map([["evt_0_2", "two"]]))
    lanes.start(lane)
    expect(sent).toEqual([])
    const { missing } = lanes.bodies
    lanes.bodies.load(missing, new Map([["evt_0_3", "three"]]))
    lanes.start(lane)
    expect(sent.map(({ body }) => body)).toEqual(["two"])
    expect(lane.inFlight).toHaveLength(2)
    lane.clear()
    expect(lanes.bodies.bytes).toBe(10)
    expect(lane.inFlight).toHaveLength(1)
  })
})

describe("large events", () => {
  const database = useDatabase()
  const receiver = useReceiver()

  it("of several endpoints all arrive, in order for each object, with identical bytes", async () => {
    const { keys, account } = await database.run(() => createAccount({ businessName: "Large" }))
    const server = await startServer(database.url(), { ALLOW_LOOPBACK_WEBHOOKS: "true" })
    const api = createApi(server.origin, keys.sk_test)
    const paths = ["/a", "/b", "/c"]
    for (const path of paths)
      data(await api.post("/webhook-endpoints", { url: receiver.url(path), enabled_events: ["*"] }), 201)
    const events = await database.write((unit) =>
      appendEvents(
        unit,
        Array.from({ length: 40 }, (_, n) => ({
          account_id: account.id,
          livemode: false,
          type: "charge.failed",
          object: { id: `chg_${n % 3}`, object: "charge", n, text: "₦".repeat(n % 2 === 0 ? 20_000 : 10) },
          previous: {},
          test_clock_id: null,
          at: Date.now(),
        })),
      ),
    )
    const bodies = new Map(events.map((event) => [event.id, eventBody(event)]))
    for (const path of paths) {
      const received = await eventually(async () => {
        const all = receiver.at(path)
        return all.length >= events.length ? all : undefined
      })
      expect(new Map(received.map(({ headers, body }) => [String(headers["webhook-id"]), body]))).toEqual(bodies)
      for (const object of ["chg_0", "chg_1", "chg_2"]) {
        const eventIds = received.filter(({ event }) => event.data.object.id === object).map(({ event }) => event.id)
        expect(eventIds).toEqual(eventIds.toSorted())
      }
    }
    expect(await server.stop()).toBe(0)
  })
})
