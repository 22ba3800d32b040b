/** Tests webhooks: their content, their signature, and the handling of failures (decisions I1 to I8). */
import { Webhook } from "standardwebhooks"
import { describe, expect, it } from "vitest"
import { useOwnInstance } from "../support/instance.ts"
import { addMember } from "../support/member.ts"
import { useReceiver } from "../support/receiver.ts"
import { startServer } from "../support/server.ts"
import { createCustomer, createPlan, data, eventually, refusal, subscribe } from "../support/story.ts"

const { api, live, database, server, accountId } = useOwnInstance(() => ({ ALLOW_LOOPBACK_WEBHOOKS: "true" }))
const receiver = useReceiver()

let made = 0
/** A separate endpoint for a test. */
const addEndpoint = async (
  enabled_events: ReadonlyArray<string> = ["*"],
  answer?: Parameters<typeof receiver.answer>[1],
) => {
  const path = `/hook-${++made}`
  if (answer !== undefined) receiver.answer(path, answer)
  const endpoint = data(await api.post("/webhook-endpoints", { url: receiver.url(path), enabled_events }), 201)
  return { path, id: endpoint.id as string, secret: endpoint.secret as string }
}

/** An endpoint that answers its last request when the test asks for it. */
const addSlowEndpoint = async (events: string, status: number) => {
  let answer = () => {}
  const endpoint = await addEndpoint([events], (_, response) => {
    answer = () => void response.writeHead(status).end()
  })
  return { ...endpoint, answer: () => answer() }
}

const remove = (id: string) => api.delete(`/webhook-endpoints/${id}`)
const trigger = async (type: string, body: object = {}) =>
  data(await api.post("/test/events/trigger", { type, ...body }), 201)
const arrived = (path: string, count: number) =>
  eventually(async () => (receiver.at(path).length >= count ? receiver.at(path) : undefined))
const deliveries = async (event: string) => data(await api.get(`/events/${event}/deliveries`))
const settled = (event: string, status: string) =>
  eventually(async () => {
    const [delivery] = await deliveries(event)
    return delivery?.status === status ? delivery : undefined
  })
/** Makes the next try of an endpoint's deliveries due now. */
const hurry = (id: string) =>
  database.run(
    (sql) =>
      sql`UPDATE webhook_delivery SET due_at = now() WHERE webhook_endpoint_id = ${id} AND due_at IS NOT NULL RETURNING 1`,
  )

describe("a webhook", () => {
  it("carries the event byte for byte as it was signed", async () => {
    const { path, id, secret } = await addEndpoint(["subscription.*", "charge.succeeded"])
    const story = await subscribe(api, "2026-01-31T09:00:00Z", "pm_test_success")
    const [first] = await arrived(path, 2)
    const seen = new Webhook(secret).verify(first!.body, first!.headers as Record<string, string>)
    expect(first!.headers).toMatchObject({
      "content-type": "application/json",
      "user-agent": expect.stringContaining("RecurringBilling"),
      "webhook-id": first!.event.id,
    })
    expect(seen).toEqual(data(await api.get(`/events/${first!.event.id}`)))
    expect(receiver.at(path).map(({ event }) => event.type)).toEqual(["subscription.created", "charge.succeeded"])
    expect(first!.event.data.object.id).toBe(story.id)
    expect(() => new Webhook(secret).verify(`${first!.body} `, first!.headers as Record<string, string>)).toThrow()
    await remove(id)
  })

  it("goes to the endpoints that are enabled for its type, and is listed", async () => {
    const every = await addEndpoint(["*"])
    const family = await addEndpoint(["charge.*"])
    const exact = await addEndpoint(["charge.failed"])
    const other = await addEndpoint(["subscription.*", "charge.succeeded", "made.up"])
    const { id } = await trigger("charge.failed")
    await trigger("made.up")
    // A type without a family matches only *.
    const lone = await trigger("charge")
    const of = (await deliveries(lone.id)).map((one: { webhook_endpoint: string }) => one.webhook_endpoint)
    expect(of).toEqual([every.id])
    await arrived(every.path, 3)
    for (const { path } of [family, exact, other]) await arrived(path, 1)
    await settled(id, "succeeded")
    expect(receiver.at(every.path).map(({ event }) => event.type)).toEqual(["charge.failed", "made.up", "charge"])
    expect(receiver.at(family.path).map(({ event }) => event.type)).toEqual(["charge.failed"])
    expect(receiver.at(other.path).map(({ event }) => event.type)).toEqual(["made.up"])
    const listed = await eventually(async () => {
      const all = await deliveries(id)
      return all.every(({ status }: { status: string }) => status === "succeeded") ? all : undefined
    })
    expect(listed.map((one: { webhook_endpoint: string }) => one.webhook_endpoint).sort()).toEqual(
      [every.id, family.id, exact.id].sort(),
    )
    expect(listed[0]).toMatchObject({
      object: "delivery",
      event: id,
      attempt: 1,
      status: "succeeded",
      response_status: 200,
      response_body: "fine",
      duration_ms: expect.any(Number),
      next_attempt_at: null,
    })
    for (const endpoint of [every, family, exact, other]) await remove(endpoint.id)
  })

  it("is retried on schedule, with the same ID and bytes and a fresh signature", async () => {
    // The first retry comes after five seconds: the endpoint does not answer before the test has seen the first try.
    let seen = 0
    const { path, id, secret } = await addEndpoint(["*"], async ({ path }, response) => {
      const before = receiver.at(path).length - 1
      await eventually(async () => (seen >= before ? true : undefined))
      response.writeHead(503).end("x".repeat(5_000))
    })
    const event = await trigger("charge.failed")
    for (const [index, seconds] of [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000].entries()) {
      const delivery = await eventually(async () => {
        const [one] = await deliveries(event.id)
        return one.attempt === index + 1 ? one : undefined
      })
      expect([delivery.status, delivery.response_status, delivery.response_body.length]).toEqual([
        "pending",
        503,
        2_048,
      ])
      const waits = (Date.parse(delivery.next_attempt_at) - Date.now()) / 1000
      expect(waits).toBeGreaterThan(seconds * 0.9 - 60)
      expect(waits).toBeLessThan(seconds * 1.1 + 1)
      seen = index + 1
      await hurry(id)
    }
    expect(await settled(event.id, "failed")).toMatchObject({ attempt: 8, next_attempt_at: null })
    const tries = receiver.at(path)
    expect(tries).toHaveLength(8)
    expect(new Set(tries.map(({ body }) => body)).size).toBe(1)
    expect(new Set(tries.map(({ headers }) => headers["webhook-id"]))).toEqual(new Set([event.id]))
    for (const { body, headers } of tries) new Webhook(secret).verify(body, headers as Record<string, string>)
    await remove(id)
  })

  it("waits as long as Retry-After asks, and follows no redirect", async () => {
    const { path, id } = await addEndpoint(
      ["*"],
      (_, response) => void response.writeHead(429, { "retry-after": "3600" }).end(),
    )
    const event = await trigger("charge.failed")
    const [delivery] = await eventually(async () => {
      const all = await deliveries(event.id)
      return all[0].attempt === 1 ? all : undefined
    })
    const waits = (Date.parse(delivery.next_attempt_at) - Date.now()) / 1000
    expect(waits).toBeGreaterThan(3_500)
    expect(waits).toBeLessThan(3_601)
    const elsewhere = `/elsewhere-${path.slice(1)}`
    receiver.answer(path, (_, response) => void response.writeHead(302, { location: receiver.url(elsewhere) }).end())
    await hurry(id)
    await eventually(async () => ((await deliveries(event.id))[0].attempt === 2 ? true : undefined))
    expect((await deliveries(event.id))[0]).toMatchObject({ status: "pending", response_status: 302 })
    expect(receiver.at(elsewhere)).toEqual([])
    await remove(id)
  })

  it("of one object go in order, those of others in parallel", async () => {
    // The first event of the first object is delayed. No event of that object may overtake it.
    let release = () => {}
    let delayedId = ""
    const { path, id } = await addEndpoint(["ordered.*"], (received, response) => {
      const finish = () => void response.writeHead(200).end()
      if (delayedId === "") {
        delayedId = received.event.id
        release = finish
      } else finish()
    })
    const plan = await createPlan(api)
    const other = await createPlan(api)
    const mine: Array<string> = []
    for (let n = 0; n < 5; n++) mine.push((await trigger(`ordered.e${n}`, { object: plan })).id)
    const theirs = (await trigger("ordered.other", { object: other })).id
    await eventually(async () => (receiver.at(path).some(({ event }) => event.id === theirs) ? true : undefined))
    expect(receiver.at(path).map(({ event }) => event.id)).toEqual([mine[0], theirs])
    release()
    await arrived(path, 6)
    expect(
      receiver
        .at(path)
        .map(({ event }) => event.id)
        .filter((one) => one !== theirs),
    ).toEqual(mine)
    await remove(id)
  })

  it("reaches others while one endpoint does not answer", async () => {
    const hanging = await addEndpoint(["slow.*"], () => {})
    const quick = await addEndpoint(["slow.*"])
    for (let n = 0; n < 40; n++) await trigger("slow.event")
    expect(await arrived(quick.path, 40)).toHaveLength(40)
    expect(receiver.at(hanging.path).length).toBeLessThanOrEqual(16)
    await remove(hanging.id)
    await remove(quick.id)
  })

  it("is sent again on request, to one endpoint or to all", async () => {
    const one = await addEndpoint(["charge.*"])
    const two = await addEndpoint(["charge.*"])
    const event = await trigger("charge.failed")
    await arrived(one.path, 1)
    await arrived(two.path, 1)
    const again = await api.post(`/events/${event.id}/resend`, { webhook_endpoint: one.id })
    expect(
      data(again, 202).map((delivery: Record<string, unknown>) => [delivery.webhook_endpoint, delivery.status]),
    ).toEqual([[one.id, "pending"]])
    await arrived(one.path, 2)
    expect(data(await api.post(`/events/${event.id}/resend`, {}), 202)).toHaveLength(2)
    await arrived(one.path, 3)
    await arrived(two.path, 2)
    expect(new Set(receiver.at(one.path).map(({ headers }) => headers["webhook-id"])).size).toBe(1)
    data(await api.patch(`/webhook-endpoints/${one.id}`, { status: "disabled" }))
    expect(refusal(await api.post(`/events/${event.id}/resend`, { webhook_endpoint: one.id }))[1]).toBe(
      "webhook_endpoint_disabled",
    )
    expect(refusal(await api.post(`/events/${event.id}/resend`, { webhook_endpoint: "we_none" }))).toEqual([
      400,
      "resource_missing",
      "webhook_endpoint",
    ])
    expect(refusal(await api.post("/events/evt_none/resend", {}))).toEqual([404, "resource_missing", null])
    await remove(one.id)
    await remove(two.id)
  })
})

describe("a webhook endpoint", () => {
  it("that is disabled gets nothing, and when enabled again only later events", async () => {
    const { path, id } = await addEndpoint(["state.*"], (_, response) => void response.writeHead(500).end())
    const before = await trigger("state.before")
    await arrived(path, 1)
    expect(data(await api.patch(`/webhook-endpoints/${id}`, { status: "disabled" }))).toMatchObject({
      status: "disabled",
      disabled_reason: null,
    })
    const meanwhile = await trigger("state.meanwhile")
    receiver.answer(path, (_, response) => void response.writeHead(200).end())
    expect(data(await api.patch(`/webhook-endpoints/${id}`, { status: "enabled" })).status).toBe("enabled")
    await hurry(id)
    const after = await trigger("state.after")
    await settled(after.id, "succeeded")
    expect(await settled(before.id, "failed")).toMatchObject({ failure_reason: "endpoint_disabled" })
    expect(await deliveries(meanwhile.id)).toEqual([])
    expect(receiver.at(path).map(({ event }) => event.type)).toEqual(["state.before", "state.after"])
    await remove(id)
  })

  it("that is disabled gets no more deliveries in flight either", async () => {
    const answers: Array<() => void> = []
    const { path, id } = await addEndpoint(["held.*"], (_, response) => {
      answers.push(() => void response.writeHead(200).end())
    })
    const events: Array<string> = []
    for (let n = 0; n < 40; n++) events.push((await trigger("held.back")).id)
    await arrived(path, 16)
    data(await api.patch(`/webhook-endpoints/${id}`, { status: "disabled" }))
    // First all are given up. Then the sixteen in progress are answered, and reported as delivered.
    const given = { attempt: 0, failure_reason: "endpoint_disabled" }
    for (const event of events) expect(await settled(event, "failed")).toMatchObject(given)
    for (const answer of answers) answer()
    for (const event of events.slice(0, 16))
      expect(await settled(event, "succeeded")).toMatchObject({
        attempt: 1,
        response_status: 200,
        failure_reason: null,
      })
    for (const event of events.slice(16)) expect((await deliveries(event))[0]).toMatchObject(given)
    // Another endpoint has received one since: the worker's rounds continued.
    const other = await addEndpoint(["later.*"])
    await trigger("later.event")
    await arrived(other.path, 1)
    await remove(other.id)
    expect(receiver.at(path)).toHaveLength(16)
    await remove(id)
  })

  it("that moved is not disabled because of its old address's answer", async () => {
    const { path, id, answer } = await addSlowEndpoint("moved.*", 410)
    const event = await trigger("moved.away")
    await arrived(path, 1)
    const elsewhere = `${path}-elsewhere`
    data(await api.patch(`/webhook-endpoints/${id}`, { url: receiver.url(elsewhere) }))
    answer()
    await eventually(async () => ((await deliveries(event.id))[0].attempt === 1 ? true : undefined))
    await trigger("moved.here")
    await arrived(elsewhere, 1)
    expect(data(await api.get(`/webhook-endpoints/${id}`)).status).toBe("enabled")
    await remove(id)
  })

  it("whose last try fails after it was disabled is not tried again", async () => {
    const { path, id, answer } = await addSlowEndpoint("late.*", 500)
    const event = await trigger("late.failure")
    await arrived(path, 1)
    data(await api.patch(`/webhook-endpoints/${id}`, { status: "disabled" }))
    await settled(event.id, "failed")
    answer()
    await eventually(async () => ((await deliveries(event.id))[0].attempt === 1 ? true : undefined))
    expect(await deliveries(event.id)).toMatchObject([
      { status: "failed", response_status: 500, failure_reason: "endpoint_disabled", next_attempt_at: null },
    ])
    await remove(id)
  })

  it.each([
    ["an event", () => trigger("gone.now")],
    ["a test", (id: string) => api.post(`/webhook-endpoints/${id}/test`, {})],
  ])("that answers %s with 410 is disabled immediately", async (_, send) => {
    const { id } = await addEndpoint(["gone.*"], (_, response) => void response.writeHead(410).end())
    await send(id)
    const endpoint = await eventually(async () => {
      const one = data(await api.get(`/webhook-endpoints/${id}`))
      return one.status === "disabled" ? one : undefined
    })
    expect(endpoint.disabled_reason).toBe("endpoint_gone")
    await remove(id)
  })

  it("that fails for five days and ten times is disabled, and its owner is notified", async () => {
    await addMember(database, accountId(), "owner", "owner@fit.example")
    const { path, id } = await addEndpoint(["fails.*"], (_, response) => void response.writeHead(500).end())
    const fail = async (times: number) => {
      const had = receiver.at(path).length
      for (let n = 0; n < times; n++) await trigger("fails.again")
      await eventually(async () => {
        const [row] = await database.run(
          (sql) => sql<{ failures: number }>`SELECT failures FROM webhook_endpoint WHERE id = ${id}`,
        )
        return receiver.at(path).length >= had + times && row!.failures >= had + times ? true : undefined
      })
    }
    const since = (days: number) =>
      database.run(
        (sql) =>
          sql`UPDATE webhook_endpoint SET failing_since = now() - make_interval(days => ${days}::int) WHERE id = ${id} RETURNING 1`,
      )
    // On a slow machine each event may also have failed a second time: its first retry comes after 5 s.
    await fail(2)
    await since(6)
    await fail(1)
    expect(data(await api.get(`/webhook-endpoints/${id}`)).status).toBe("enabled")
    await since(4)
    await fail(8)
    expect(data(await api.get(`/webhook-endpoints/${id}`)).status).toBe("enabled")
    await since(5)
    await trigger("fails.again")
    const disabled = await eventually(async () => {
      const one = data(await api.get(`/webhook-endpoints/${id}`))
      return one.status === "disabled" ? one : undefined
    })
    expect(disabled.disabled_reason).toBe("repeated_failures")
    const emails = await database.run((sql) => sql`SELECT recipient, subject FROM letter`)
    expect(emails).toEqual([{ recipient: "owner@fit.example", subject: "A webhook endpoint was disabled" }])
    await remove(id)
  })

  it("may be the object of a test event, without its secret; a made-up one looks like it", async () => {
    const { path, id } = await addEndpoint(["webhook_endpoint.test"])
    const shown = data(await api.get(`/webhook-endpoints/${id}`))
    const event = await trigger("webhook_endpoint.test", { object: id })
    expect(event.data.object).toEqual(shown)
    const madeUp = await trigger("webhook_endpoint.test")
    expect(madeUp.data.object).toEqual({
      ...shown,
      id: expect.stringMatching(/^we_[0-9a-z]{26}$/),
      created_at: expect.any(String),
      url: expect.stringMatching(/^https:/),
      enabled_events: expect.any(Array),
    })
    await eventually(async () => (receiver.at(path).length === 2 ? true : undefined))
    await remove(id)
  })

  it("is tested immediately, disabled or not, without retry", async () => {
    const { path, id, secret } = await addEndpoint(["none.*"])
    const other = await addEndpoint(["*"])
    await api.patch(`/webhook-endpoints/${id}`, { status: "disabled" })
    const test = data(await api.post(`/webhook-endpoints/${id}/test`))
    expect(test).toEqual({
      event: expect.stringMatching(/^evt_/),
      response_status: 200,
      duration_ms: expect.any(Number),
      delivered: true,
    })
    const [received] = receiver.at(path)
    expect(received!.event).toMatchObject({ id: test.event, type: "webhook_endpoint.test", data: { object: { id } } })
    new Webhook(secret).verify(received!.body, received!.headers as Record<string, string>)
    expect(data(await api.get(`/events/${test.event}`)).type).toBe("webhook_endpoint.test")
    receiver.answer(path, (_, response) => void response.writeHead(500).end())
    expect(data(await api.post(`/webhook-endpoints/${id}/test`))).toMatchObject({
      response_status: 500,
      delivered: false,
    })
    receiver.answer(path, (_, response) => void response.destroy())
    const retried = await api.post(`/webhook-endpoints/${id}/test`, undefined, { "idempotency-key": "one-test" })
    expect(data(retried)).toMatchObject({ response_status: null, delivered: false })
    expect(data(await api.post(`/webhook-endpoints/${id}/test`, undefined, { "idempotency-key": "one-test" }))).toEqual(
      data(retried),
    )
    expect(receiver.at(path)).toHaveLength(3)
    expect(receiver.at(other.path)).toEqual([])
    await remove(id)
    await remove(other.id)
  })

  it("signs with both secrets for a day after a roll", async () => {
    const { path, id, secret } = await addEndpoint(["rolled.*"])
    const rolled = data(await api.post(`/webhook-endpoints/${id}/roll-secret`))
    expect(rolled.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(rolled.secret).not.toBe(secret)
    const left = Date.parse(rolled.previous_secret_expires_at) - Date.now()
    expect(Math.round(left / 3_600_000)).toBe(24)
    await trigger("rolled.once")
    const [both] = await arrived(path, 1)
    expect(String(both!.headers["webhook-signature"]).split(" ")).toHaveLength(2)
    for (const one of [secret, rolled.secret])
      new Webhook(one).verify(both!.body, both!.headers as Record<string, string>)
    await database.run(
      (sql) =>
        sql`UPDATE webhook_secret SET expires_at = now() WHERE webhook_endpoint_id = ${id} AND expires_at IS NOT NULL RETURNING 1`,
    )
    await trigger("rolled.later")
    const [, later] = await arrived(path, 2)
    new Webhook(rolled.secret).verify(later!.body, later!.headers as Record<string, string>)
    expect(() => new Webhook(secret).verify(later!.body, later!.headers as Record<string, string>)).toThrow()
    for (const shown of [await api.get(`/webhook-endpoints/${id}`), await api.get("/webhook-endpoints")])
      expect(JSON.stringify(shown.body)).not.toContain("whsec_")
    await remove(id)
  })

  it("has five secrets at most, each of which signs until its end", async () => {
    const { path, id, secret } = await addEndpoint(["often.*"])
    const roll = () => api.post(`/webhook-endpoints/${id}/roll-secret`)
    const first = data(await roll())
    const secrets = [secret, first.secret]
    for (let n = 0; n < 3; n++) secrets.push(data(await roll()).secret)
    const refused = await roll()
    expect(refusal(refused)).toEqual([422, "webhook_secret_limit_reached", null])
    expect(refused.body.error.message).toContain(first.previous_secret_expires_at)
    await trigger("often.rolled")
    const [signed] = await arrived(path, 1)
    expect(String(signed!.headers["webhook-signature"]).split(" ")).toHaveLength(5)
    for (const one of secrets) new Webhook(one).verify(signed!.body, signed!.headers as Record<string, string>)
    await database.run(
      (sql) => sql`
        UPDATE webhook_secret SET expires_at = now()
        WHERE webhook_endpoint_id = ${id} AND id = (SELECT min(id) FROM webhook_secret WHERE webhook_endpoint_id = ${id})`,
    )
    data(await roll())
    await remove(id)
  })

  it("is limited to sixteen, also for concurrent creation", async () => {
    const add = () => api.post("/webhook-endpoints", { url: receiver.url("/many"), enabled_events: ["never.sent"] })
    const answers = await Promise.all(Array.from({ length: 20 }, add))
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(16)
    expect(refusal(answers.find(({ status }) => status !== 201)!)).toEqual([
      422,
      "webhook_endpoint_limit_reached",
      null,
    ])
    const ids = answers.flatMap(({ status, body }) => (status === 201 ? [body.data.id as string] : []))
    data(await remove(ids[0]!))
    expect((await add()).status).toBe(201)
    for (const { id } of (await api.all("/webhook-endpoints")) as ReadonlyArray<{ id: string }>) await remove(id)
    expect((await api.get("/webhook-endpoints")).body.data).toEqual([])
  })

  it("is refused if a field is invalid", async () => {
    const right = { url: receiver.url("/x"), enabled_events: ["*"] }
    for (const [over, param] of [
      [{ url: "ftp://shop.example/x" }, "url"],
      [{ url: "not a url" }, "url"],
      [{ url: "https://user:word@shop.example/" }, "url"],
      [{ url: "https://shop.example/#here" }, "url"],
      [{ enabled_events: [] }, "enabled_events"],
      [{ enabled_events: ["*", "charge"] }, "enabled_events[1]"],
      [{ enabled_events: ["charge.*.x"] }, "enabled_events[0]"],
      [{ description: "x".repeat(201) }, "description"],
    ] as const)
      expect(refusal(await api.post("/webhook-endpoints", { ...right, ...over })), JSON.stringify(over)).toEqual([
        400,
        "parameter_invalid",
        param,
      ])
    expect(refusal(await api.post("/webhook-endpoints", { url: right.url }))).toEqual([
      400,
      "parameter_missing",
      "enabled_events",
    ])
    // The first in the body's order (A5), for any kind of check.
    const [url, enabled_events] = ["http://10.0.0.1/x", ["nonsense"]]
    expect(refusal(await api.post("/webhook-endpoints", { url, enabled_events }))[2]).toBe("url")
    expect(refusal(await live.post("/webhook-endpoints", { enabled_events, url }))[2]).toBe("enabled_events[0]")
    const secure = { url: "https://93.184.215.14/x", enabled_events: ["charge.failed", "charge.*"] }
    for (const [over, param] of [
      [{ url: "http://93.184.215.14/x" }, "url"],
      [{ enabled_events: ["made.up"] }, "enabled_events[0]"],
      [{ enabled_events: ["made.*"] }, "enabled_events[0]"],
    ] as const)
      expect(refusal(await live.post("/webhook-endpoints", { ...secure, ...over }))).toEqual([
        400,
        "parameter_invalid",
        param,
      ])
    const { id } = data(await live.post("/webhook-endpoints", secure), 201)
    expect(
      data(await live.patch(`/webhook-endpoints/${id}`, { description: "Live", url: "https://93.184.215.14/y" })),
    ).toMatchObject({
      description: "Live",
      url: "https://93.184.215.14/y",
      livemode: true,
    })
    data(await live.delete(`/webhook-endpoints/${id}`))
  })
})

describe("two processes", () => {
  it("share the endpoints, and one delivers the other's leftovers with the same webhook-id", async () => {
    const endpoints = [await addEndpoint(["crash.*"]), await addEndpoint(["crash.*"])]
    const second = await startServer(database.url(), { ALLOW_LOOPBACK_WEBHOOKS: "true" })
    const customer = await createCustomer(api)
    const fired = new Set<string>()
    for (let n = 0; n < 60; n++) {
      fired.add((await trigger("crash.now", { object: customer })).id)
      if (n === 30) await second.kill()
    }
    for (const { path, id } of endpoints) {
      await eventually(async () => {
        const ids = new Set(receiver.at(path).map(({ headers }) => headers["webhook-id"]))
        return ids.size === fired.size ? true : undefined
      })
      const unsettled = await eventually(async () => {
        const rows = await database.run(
          (sql) => sql`SELECT 1 FROM webhook_delivery WHERE webhook_endpoint_id = ${id} AND status <> 'succeeded'`,
        )
        return rows.length === 0 ? rows : undefined
      })
      expect(unsettled).toEqual([])
      expect(new Set(receiver.at(path).map(({ event }) => event.id))).toEqual(fired)
      await remove(id)
    }
    expect(server().origin).toBeTruthy()
  })
})
