/** Tests values that merchants choose freely: size, numbers, events about them (decisions B4, B6, C7). */
import { Effect } from "effect"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { newId } from "../../src/base/ids.ts"
import { jsonBytes } from "../../src/base/json.ts"
import { parseBody } from "../../src/http/parseBody.ts"
import { eventData, MAX_DATA_BYTES, MAX_EVENT_BYTES } from "../../src/outbound/event/data.ts"
import { eventBody } from "../../src/outbound/event/events.ts"
import { useInstance } from "../support/instance.ts"
import { createCustomer, createPlan, data, subscribe } from "../support/story.ts"

const { api, database } = useInstance()

const PLAN = '"name": "P", "amount": 5000, "currency": "NGN", "billing_cycle": "monthly"'
const refused = async (method: "POST" | "PATCH", path: string, body: unknown) => {
  const answer = await api.request(method, path, body)
  expect(answer.status).toBe(400)
  const { code, param, message } = answer.body.error
  return { code, param, message: message as string }
}

const parse = (body: string) => Effect.runSync(parseBody(body))

/** A numeral's exact value, as an integer multiple of 10^-2000. */
const exactly = (numeral: string): bigint => {
  const [, sign, whole, fraction = "", power = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(numeral)!
  const value = BigInt(`${whole}${fraction}`) * 10n ** BigInt(2000 - fraction.length + Number(power))
  return sign === "-" ? -value : value
}

const numerals = fc
  .record({
    sign: fc.constantFrom("", "-"),
    whole: fc.oneof(fc.constant("0"), fc.bigInt({ min: 1n, max: 10n ** 24n }).map(String)),
    fraction: fc.oneof(fc.constant(""), fc.stringMatching(/^\.\d{1,24}$/)),
    power: fc.oneof(fc.constant(""), fc.stringMatching(/^[eE][-+]?\d{1,3}$/)),
  })
  .map(({ sign, whole, fraction, power }) => `${sign}${whole}${fraction}${power}`)

describe("a number", () => {
  it("is accepted if a double stores its decimal value, otherwise read as Infinity", () => {
    let exactCount = 0
    fc.assert(
      fc.property(fc.oneof(numerals, fc.double({ noNaN: true, noDefaultInfinity: true }).map(String)), (numeral) => {
        const { n } = parse(`{"n": ${numeral}}`) as { n: number }
        const isHeld = Number.isFinite(Number(numeral)) && exactly(String(Number(numeral))) === exactly(numeral)
        expect(n).toBe(isHeld ? Number(numeral) : Number.POSITIVE_INFINITY)
        if (isHeld) exactCount++
      }),
      { numRuns: 2_000 },
    )
    expect(exactCount).toBeGreaterThan(500)
    expect(exactCount).toBeLessThan(1_900)
  })

  it("in text is text", () => {
    const text = '1e400 \\" 12345678901234567890 \\\\'
    expect(parse(`{"1e400": "${text}", "a": [1e400, 0.5], "n": 1.0}`)).toEqual({
      "1e400": '1e400 " 12345678901234567890 \\',
      a: [Number.POSITIVE_INFINITY, 0.5],
      n: 1,
    })
  })

  it.each(["1e400", "-1e400", "12345678901234567890", "9007199254740993", "0.1234567890123456789", "1e-400"])(
    "%s is refused by its path",
    async (numeral) => {
      const body = `{${PLAN}, "service_config": {"a": 1, "limits": [{"max": 7}, {"max": ${numeral}}]}, "trial_days": "x"}`
      const { code, param, message } = await refused("POST", "/plans", body)
      expect([code, param]).toEqual(["parameter_invalid", "service_config.limits[1].max"])
      expect(message).toMatch(
        /^service_config\.limits\[1\]\.max must be a number that a double .* send it as a string\.$/,
      )
      const event = `{"type": "a.b", "overrides": {"n": ${numeral}}}`
      expect((await refused("POST", "/test/events/trigger", event)).param).toBe("overrides.n")
    },
  )

  it.each(["1.0", "1e3", "0.1", "9007199254740991", "1e300", "-0.5e-7", "100000000000000000000000"])(
    "%s comes back as it was sent",
    async (numeral) => {
      const made = data(await api.post("/plans", `{${PLAN}, "service_config": {"n": ${numeral}}}`), 201)
      expect(exactly(String(made.service_config.n))).toBe(exactly(numeral))
      const read = data(await api.get(`/plans/${made.id}`))
      expect(read.service_config).toEqual(made.service_config)
    },
  )

  it("that would be an integer only by loss of precision is refused", async () => {
    const body = '{"name": "P", "amount": 5000.00000000000000001, "currency": "NGN", "billing_cycle": "monthly"}'
    const { code, param, message } = await refused("POST", "/plans", body)
    expect([code, param]).toEqual(["parameter_invalid", "amount"])
    expect(message).toBe("amount must be an integer number of kobo from 100 to 99999999999.")
    data(await api.post("/plans", body.replace("00000001", "00000000")), 201)
  })

  it("is refused in the order of the body", async () => {
    const first = `{"trial_days": "x", "service_config": {"n": 1e400}, ${PLAN}}`
    expect((await refused("POST", "/plans", first)).param).toBe("trial_days")
    const second = `{"service_config": {"n": 1e400}, "trial_days": "x", ${PLAN}}`
    expect((await refused("POST", "/plans", second)).param).toBe("service_config.n")
    const inMetadata = `{"metadata": {"n": 1e400}, "service_config": {"n": 1e400}, ${PLAN}}`
    expect((await refused("POST", "/plans", inMetadata)).param).toBe("metadata[n]")
  })
})

describe("16 KiB", () => {
  const LIMIT = 16_384
  /** An object of this many bytes as JSON, in characters of 3 bytes as far as possible. */
  const ofBytes = (bytes: number) => {
    const left = bytes - Buffer.byteLength('{"a":""}')
    return { a: "₦".repeat(Math.floor(left / 3)) + "x".repeat(left % 3) }
  }

  it("of service_config are accepted, and one byte more is refused", async () => {
    const plan = { name: "P", amount: 5000, currency: "NGN", billing_cycle: "monthly" }
    const full = data(await api.post("/plans", { ...plan, service_config: ofBytes(LIMIT) }), 201)
    expect(full.service_config).toEqual(ofBytes(LIMIT))
    const over = { service_config: ofBytes(LIMIT + 1) }
    for (const refusal of [
      await refused("POST", "/plans", { ...plan, ...over, amount: 1 }),
      await refused("PATCH", `/plans/${full.id}`, { amount: 1, ...over }),
    ])
      expect(refusal).toMatchObject({ code: "parameter_invalid", param: "amount" })
    for (const refusal of [
      await refused("POST", "/plans", { ...over, ...plan }),
      await refused("PATCH", `/plans/${full.id}`, { ...over, amount: 1 }),
    ]) {
      expect(refusal).toMatchObject({ code: "parameter_invalid", param: "service_config" })
      expect(refusal.message).toContain("16384 bytes")
      expect(refusal.message).toContain("it has 16385 bytes")
    }
  })

  it("of overrides are accepted, and one byte more is refused", async () => {
    const trigger = { type: "a.b", overrides: ofBytes(LIMIT) }
    expect(data(await api.post("/test/events/trigger", trigger), 201).data.object).toMatchObject(ofBytes(LIMIT))
    const over = await refused("POST", "/test/events/trigger", { type: "a.b", overrides: ofBytes(LIMIT + 1) })
    expect(over).toMatchObject({ code: "parameter_invalid", param: "overrides" })
    expect(over.message).toContain("it has 16385 bytes")
  })

  it("count numbers as the database writes them", async () => {
    const values = [0, 1.5, -2e-7, 1e21, 1.7976931348623157e308, 5e-324]
    const [row] = await database.run(
      (sql) => sql<{ bytes: number }>`SELECT octet_length(${JSON.stringify({ values })}::text::jsonb::text) AS bytes`,
    )
    expect(jsonBytes({ values })).toBeGreaterThanOrEqual(row!.bytes - values.length - 1)
    const many = { numbers: Array.from({ length: 60 }, () => 1e300) }
    expect(JSON.stringify(many).length).toBeLessThan(1_000)
    expect((await refused("PATCH", `/plans/${await createPlan(api)}`, { service_config: many })).param).toBe(
      "service_config",
    )
  })
})

describe("metadata", () => {
  const full = (character: string) =>
    Object.fromEntries(
      Array.from({ length: 20 }, (_, n) => [String(n).padStart(2, "0") + character.repeat(38), character.repeat(500)]),
    )

  it.each(["x", '"', "₦", "🙂"])("fits to its last character in any script: %s", async (character) => {
    const metadata = full(character)
    const customer = await createCustomer(api, { metadata })
    expect(data(await api.get(`/customers/${customer}`)).metadata).toEqual(metadata)
    const body = { customer, plan: await createPlan(api), payment_method: "pm_test_success", metadata }
    const { id } = data(await api.post("/subscriptions", body), 201)
    const [created] = await api.all("/events?type=subscription.created")
    expect(created.data.object).toMatchObject({ id, metadata })
  })

  it("has at most 44 KiB", async () => {
    for (const [path, body] of [
      ["/customers", { name: "A" }],
      ["/plans", { name: "P", amount: 5000, currency: "NGN", billing_cycle: "monthly" }],
    ] as const) {
      const refusal = await refused("POST", path, { ...body, metadata: full("\u0001") })
      expect(refusal).toMatchObject({ code: "parameter_invalid", param: "metadata" })
      expect(refusal.message).toContain("45056 bytes")
      expect(refusal.message).toContain(`it has ${jsonBytes(full("\u0001"))} bytes`)
    }
  })

  it("has at most 44 KiB merged", async () => {
    const entries = Object.entries(full("\u0001"))
    const [before, more] = [Object.fromEntries(entries.slice(0, 12)), Object.fromEntries(entries.slice(12))]
    const id = await createCustomer(api, { metadata: before })
    const refusal = await refused("PATCH", `/customers/${id}`, { metadata: more })
    expect(refusal).toMatchObject({ code: "parameter_invalid", param: "metadata" })
    expect(refusal.message).toContain(`merged with the existing metadata it has ${jsonBytes(full("\u0001"))}`)
    expect(data(await api.get(`/customers/${id}`)).metadata).toEqual(before)
    const replaced = { ...more, ...Object.fromEntries(entries.slice(0, 8).map(([key]) => [key, ""])) }
    data(await api.patch(`/customers/${id}`, { metadata: replaced }))
  })
})

describe("an event", () => {
  const bodyOf = (written: string, type = "charge.failed") =>
    eventBody({ id: newId("event"), type, livemode: false, created_at: 0, data: written })
  /** This many characters of a kind. */
  const fields = (max: number) =>
    fc.array(fc.tuple(fc.constantFrom("x", "₦", "🙂", '"', "\u0001"), fc.integer({ min: 0, max: 20_000 })), {
      maxLength: max,
    })
  const filled = (all: ReadonlyArray<readonly [character: string, count: number]>): Record<string, string> =>
    Object.fromEntries(all.map(([character, count], n) => [`field_${n}`, character.repeat(count)]))

  it("is at most 64 KiB: previous_attributes omit their largest fields, and only as many as needed", () => {
    const met = { whole: 0, shorter: 0, alone: 0 }
    fc.assert(
      fc.property(fields(3), fields(4), (shown, changed) => {
        const [object, previous] = [filled(shown), filled(changed)]
        const written = eventData(object, previous)
        expect(Buffer.byteLength(bodyOf(written, "\u0001".repeat(100)))).toBeLessThanOrEqual(MAX_EVENT_BYTES)
        const parsed = JSON.parse(written)
        if (Buffer.byteLength(JSON.stringify({ object, previous_attributes: {} })) > MAX_DATA_BYTES) {
          met.alone++
          expect(Object.keys(parsed.object).length).toBeLessThan(Object.keys(object).length)
          expect(object).toMatchObject(parsed.object)
          return
        }
        expect(parsed.object).toEqual(object)
        expect(previous).toMatchObject(parsed.previous_attributes)
        const bytes = (name: string) => Buffer.byteLength(JSON.stringify({ [name]: previous[name] }))
        const left = Object.keys(previous).filter((name) => !(name in parsed.previous_attributes))
        met[left.length === 0 ? "whole" : "shorter"]++
        if (left.length === 0) return
        const smallest = left.reduce((one, other) => (bytes(other) <= bytes(one) ? other : one))
        for (const name of Object.keys(parsed.previous_attributes))
          expect(bytes(name)).toBeLessThanOrEqual(bytes(smallest))
        const oneMore = { ...parsed.previous_attributes, [smallest]: previous[smallest] }
        expect(Buffer.byteLength(JSON.stringify({ object, previous_attributes: oneMore }))).toBeGreaterThan(
          MAX_DATA_BYTES,
        )
      }),
      // Each case occurs with any seed.
      {
        examples: [
          [[], []],
          [[], Array.from({ length: 4 }, () => ["x", 20_000])],
          [[["🙂", 20_000]], []],
        ],
      },
    )
    expect(Math.min(...Object.values(met))).toBeGreaterThan(0)
  })

  it("about an object of 55 KB shows all of it; a larger object than an event loses its largest field", async () => {
    const value = "🙂".repeat(499)
    const metadata = Object.fromEntries(Array.from({ length: 16 }, (_, n) => [`${n}`.padStart(36, "k"), value]))
    expect(jsonBytes(metadata)).toBeGreaterThan(32_000)
    const service_config = { text: "₦".repeat(5_450) }
    expect(jsonBytes(service_config)).toBeGreaterThan(16_300)
    const texts = { name: "🙂".repeat(120), description: "🙂".repeat(500), category: "🙂".repeat(60) }
    const plan = await createPlan(api, { ...texts, metadata, service_config })
    const { object } = data(await api.post("/test/events/trigger", { type: "plan.shown", object: plan }), 201).data
    expect(object).toEqual(data(await api.get(`/plans/${plan}`)))
    const over = await refused("POST", "/test/events/trigger", {
      type: "plan.shown",
      object: plan,
      overrides: { more: "x".repeat(16_000) },
    })
    expect(over).toMatchObject({ code: "parameter_invalid", param: "overrides" })
    expect(over.message).toMatch(/at most 64512 bytes .* they make it \d{5} bytes/)
    // The maximum of metadata, less a few bytes.
    const mixed = `${"\u0001".repeat(180)}${"🙂".repeat(320)}`
    const largest = Object.fromEntries(
      Array.from({ length: 15 }, (_, n) => [`${n}`.padStart(40, "k"), n === 0 ? mixed : "\u0001".repeat(500)]),
    )
    const larger = await createPlan(api, { ...texts, metadata: largest, service_config })
    const { metadata: left, ...rest } = data(await api.get(`/plans/${larger}`))
    expect(left).toEqual(largest)
    const shortened = data(await api.post("/test/events/trigger", { type: "plan.shown", object: larger }), 201)
    expect(shortened.data.object).toEqual(rest)
  })

  it("of a change of the largest metadata omits the previous value, and nothing fails", async () => {
    const large = (character: string) =>
      Object.fromEntries(Array.from({ length: 16 }, (_, n) => [`k${n}`, character.repeat(500)]))
    const { id } = await subscribe(api, "2026-01-31T09:00:00Z", "pm_test_success", {}, { metadata: large("🙂") })
    const changed = data(await api.patch(`/subscriptions/${id}`, { metadata: large("🙃"), quantity: 2 }))
    const [event] = data(await api.get("/events?type=subscription.updated&limit=1"))
    expect(event.data.object).toEqual(changed)
    expect(event.data.previous_attributes).toEqual({ quantity: 1 })
    expect(Buffer.byteLength(JSON.stringify(event))).toBeLessThanOrEqual(MAX_EVENT_BYTES)
  })

  it("is limited by the database", async () => {
    const [row] = await database.run(
      (sql) => sql<{ text: string }>`
      SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint WHERE conname = 'event_data_bounded'`,
    )
    expect(row!.text).toContain(`<= ${MAX_DATA_BYTES}`)
  })

  it("of an object with a very long test ID is ordered by its type", async () => {
    const { id } = data(await api.post("/test/events/trigger", { type: "a.b", overrides: { id: "x".repeat(65) } }), 201)
    const [row] = await database.run((sql) => sql<{ object_id: string }>`SELECT object_id FROM event WHERE id = ${id}`)
    expect(row!.object_id).toBe("a.b")
  })
})
