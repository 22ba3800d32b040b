/** Tests dry runs (decision S1): a dry run answers as the real request, shows what that brings about, and changes nothing. */
import { beforeAll, describe, expect, it } from "vitest"
import type { Answer, Api } from "../support/api.ts"
import { URLS } from "../support/checkout.ts"
import { dump } from "../support/dump.ts"
import { lockUntilReleased } from "../support/hold.ts"
import { beginPlan, createProduct, pay, useShop } from "../support/instalments.ts"
import { useOwnInstance } from "../support/instance.ts"
import { startServer } from "../support/server.ts"
import { advance, createClock, createCustomer, createPlan, data, refusal, subscribe } from "../support/story.ts"

// Without workers nothing but requests changes a row.
const { api, live, database, accountId, server } = useOwnInstance(() => ({ WORKERS: "0" }))
const { buyers } = useShop({ api, server })

type Method = "post" | "patch" | "delete"
interface Write {
  readonly path: string
  readonly body?: object
}
interface Subject {
  readonly clock: string
  readonly customer: string
  readonly plan: string
}

/** A customer on a clock, so that a dry run and the real request have the same now. */
const subject = async (plan: object = {}): Promise<Subject> => {
  const clock = await createClock(api, "2025-01-31T09:00:00Z")
  const customer = await createCustomer(api, { test_clock: clock, email: "ada@example.com" })
  return { clock, customer, plan: await createPlan(api, { ...plan }) }
}

const METHOD = { payment_method: "pm_test_success" }

const subscribed = async (plan: object = {}, over: object = {}) => {
  const made = await subject(plan)
  const body = { customer: made.customer, plan: made.plan, ...METHOD, ...over }
  return { ...made, id: data(await api.post("/subscriptions", body), 201).id as string }
}

const instalments = async (paid: number) => {
  const plan = await beginPlan(buyers(), await createProduct(api))
  for (let n = 0; n < paid; n++) expect((await pay(plan)).status).toBe(200)
  return plan.id
}

const named = async () => {
  const made = await subject()
  data(await api.patch(`/customers/${made.customer}`, { default_payment_method: "pm_test_success" }))
  return made
}

/** For every write that takes `dry_run`: makes what it needs, and returns the request. */
const WRITES: Readonly<Record<string, () => Promise<Write>>> = {
  "post /plans": async () => ({
    path: "/plans",
    body: { name: "Gym", amount: 500_000, currency: "NGN", billing_cycle: "monthly" },
  }),
  // Its subscription's next reminder follows the new rules.
  "patch /plans/{id}": async () => ({
    path: `/plans/${(await subscribed()).plan}`,
    body: { amount: 600_000, reminders: { pre_due_days: [5] } },
  }),
  "post /plans/{id}/archive": async () => ({ path: `/plans/${await createPlan(api)}/archive` }),
  "post /plans/{id}/unarchive": async () => {
    const plan = await createPlan(api)
    data(await api.post(`/plans/${plan}/archive`))
    return { path: `/plans/${plan}/unarchive` }
  },
  "post /customers": async () => {
    const test_clock = await createClock(api, "2025-01-31T09:00:00Z")
    return { path: "/customers", body: { name: "Bola Ade", phone: "+2348031234567", metadata: { a: "1" }, test_clock } }
  },
  // A new default method pays for the failed first bill of a subscription.
  "patch /customers/{id}": async () => {
    const { customer, plan } = await subject()
    const body = { customer, plan, payment_method: "pm_test_insufficient_funds" }
    data(await api.post("/subscriptions", body), 201)
    return { path: `/customers/${customer}`, body: { default_payment_method: "pm_test_success" } }
  },
  "delete /customers/{id}/payment-methods/{payment_method}": async () => ({
    path: `/customers/${(await named()).customer}/payment-methods/pm_test_success`,
  }),
  "post /subscriptions": async () => {
    const { customer, plan } = await subject()
    return { path: "/subscriptions", body: { customer, plan, ...METHOD } }
  },
  "patch /subscriptions/{id}": async () => ({
    path: `/subscriptions/${(await subscribed()).id}`,
    body: { quantity: 3, cancel_at_period_end: true },
  }),
  "post /subscriptions/{id}/pause": async () => ({
    path: `/subscriptions/${(await subscribed({ pause_enabled: true })).id}/pause`,
    body: { reason: "holiday", resumes_at: "2025-02-10T09:00:00Z" },
  }),
  "post /subscriptions/{id}/resume": async () => {
    const { id } = await subscribed({ pause_enabled: true, pro_rate: false })
    data(await api.post(`/subscriptions/${id}/pause`))
    return { path: `/subscriptions/${id}/resume` }
  },
  "post /subscriptions/{id}/cancel": async () => ({
    path: `/subscriptions/${(await subscribed()).id}/cancel`,
    body: { reason: "customer_request" },
  }),
  "post /subscriptions/{id}/unit-records": async () => ({
    path: `/subscriptions/${(await subscribed({ billing_cycle: "per_delivery" })).id}/unit-records`,
    body: { quantity: 2 },
  }),
  "post /charges": async () => {
    const { customer } = await subject()
    return { path: "/charges", body: { customer, amount: 5_000, currency: "NGN", ...METHOD } }
  },
  "post /charges/{id}/retry": async () => {
    const { customer } = await subject()
    const sale = { customer, amount: 5_000, currency: "NGN", payment_method: "pm_test_insufficient_funds" }
    const { id } = data(await api.post("/charges", sale), 201)
    return { path: `/charges/${id}/retry`, body: METHOD }
  },
  "post /checkout-sessions": async () => {
    const { customer, plan } = await subject()
    return { path: "/checkout-sessions", body: { mode: "subscription", customer, plan, ...URLS } }
  },
  "post /checkout-sessions/{id}/expire": async () => {
    const { customer, plan } = await subject()
    const session = data(await api.post("/checkout-sessions", { mode: "subscription", customer, plan, ...URLS }), 201)
    return { path: `/checkout-sessions/${session.id}/expire` }
  },
  "post /nudges": async () => {
    const { customer, id } = await subscribed()
    return { path: "/nudges", body: { customer, subscription: id, template: "payment_due", channels: ["email"] } }
  },
  "post /provider-savings/products": async () => ({
    path: "/provider-savings/products",
    body: { name: "Inverter", price: 3_001, cycleMonths: 3, mode: "fixed", allowedFrequencies: ["monthly"] },
  }),
  "patch /provider-savings/products/{id}": async () => ({
    path: `/provider-savings/products/${await createProduct(api)}`,
    body: { name: "Inverter 2" },
  }),
  "post /provider-savings/{id}/extend": async () => ({
    path: `/provider-savings/${await instalments(1)}/extend`,
    body: { days: 14 },
  }),
  "post /provider-savings/{id}/ship": async () => ({
    path: `/provider-savings/${await instalments(3)}/ship`,
    body: {},
  }),
  "post /provider-savings/{id}/deliver": async () => {
    const id = await instalments(3)
    data(await api.post(`/provider-savings/${id}/ship`, {}))
    return { path: `/provider-savings/${id}/deliver` }
  },
}

/** New IDs become their kind and number, and instants on the wall clock become their distance: they differ between two requests. */
const comparable = (known: ReadonlySet<string>) => {
  const names = new Map<string, string>()
  return (value: unknown): unknown =>
    JSON.parse(
      JSON.stringify(value)
        .replaceAll(/\b([a-z]+)_[0-9a-z]{26}\b/g, (id, kind: string) => {
          if (known.has(id)) return id
          if (!names.has(id)) names.set(id, `${kind} ${names.size}`)
          return names.get(id)!
        })
        .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, (at) => {
          const hours = Math.round((Date.parse(at) - Date.now()) / 3_600_000)
          return hours < -24 * 30 ? at : `in ${hours} hours`
        })
        .replaceAll(/\/(checkout|save|pay)\/[\w-]+/g, "/$1/token"),
    )
}

const idsIn = (rows: ReadonlyArray<string>) => new Set(rows.join().match(/\b[a-z]+_[0-9a-z]{26}\b/g) ?? [])

/** The rows that a request has changed, as the API and the books show them. */
const brought = async (before: { readonly timers: ReadonlySet<string>; readonly ids: ReadonlySet<string> }) => {
  const fresh = async (path: string) => (await api.all(path)).filter(({ id }) => !before.ids.has(id)).reverse()
  const entries = await database.run(
    (sql) => sql<{ id: string; event: string; ledger_account: string; amount_kobo: number }>`
      SELECT e.id, e.event, l.ledger_account, l.amount_kobo FROM ledger_entry e
      JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
      WHERE e.account_id = ${accountId()} ORDER BY e.id, l.line_no`,
  )
  const timers = await timersNow()
  return {
    charges: await fresh("/charges"),
    refunds: [],
    events: (await fresh("/events")).map(({ type, data: { object, previous_attributes } }) => ({
      type,
      object,
      previous_attributes,
    })),
    ledger_entries: [...Map.groupBy(entries, ({ id }) => id)].flatMap(([id, lines]) =>
      before.ids.has(id)
        ? []
        : [
            {
              kind: lines[0]!.event,
              lines: lines.map(({ ledger_account, amount_kobo }) => ({
                account: ledger_account,
                debit: Math.max(amount_kobo, 0),
                credit: Math.max(-amount_kobo, 0),
              })),
            },
          ],
    ),
    nudges: (await fresh("/nudges")).map(({ template, channel, created_at }) => ({
      template,
      channel,
      at: created_at,
    })),
    timers: [...timers].filter((one) => !before.timers.has(one)).map((one) => JSON.parse(one).shown),
  }
}

const timersNow = async (): Promise<ReadonlySet<string>> => {
  const rows = await database.run(
    (sql) => sql<{ actor_id: string; name: string; due_at: number; generation: number }>`
      SELECT actor_id, name, due_at, generation FROM timer WHERE account_id = ${accountId()} ORDER BY actor_id, due_at, rank`,
  )
  return new Set(
    rows.map(({ actor_id, name, due_at, generation }) =>
      JSON.stringify({ actor_id, generation, shown: { name, at: new Date(due_at).toISOString() } }),
    ),
  )
}

/** All rows but those in which the service notes that it runs, and that a key was used. */
const rowsNow = async () =>
  (await dump(database)).filter(
    (row) => !/^(pgboss\.version|public\.(api_key|api_request|journal_position|state_\w+|arrow_count)) /.test(row),
  )

const ask = (one: Api, method: string, path: string, body?: object): Promise<Answer> =>
  method === "post" ? one.post(path, body) : method === "patch" ? one.patch(path, body ?? {}) : one.delete(path)

const dryOf = (path: string, more = "") => `${path}?dry_run=true${more}`

const sorted = (all: ReadonlyArray<unknown>) => all.map((one) => JSON.stringify(one)).sort()

describe("a dry run", () => {
  let declared: ReadonlyArray<string>
  beforeAll(async () => {
    const document = await fetch(`${server().origin}/openapi.json`).then(
      (answer) =>
        answer.json() as Promise<{ paths: Record<string, Record<string, { parameters?: ReadonlyArray<object> }>> }>,
    )
    declared = Object.entries(document.paths).flatMap(([path, operations]) =>
      Object.entries(operations).flatMap(([method, { parameters = [] }]) =>
        JSON.stringify(parameters).includes("parameters/DryRun") ? [`${method} ${path}`] : [],
      ),
    )
  })

  it("exists for exactly the writes tested here", () => {
    expect([...declared].sort()).toEqual(Object.keys(WRITES).sort())
  })

  it.each(Object.keys(WRITES))(
    "of %s answers as the real one, shows what that does, and changes no row",
    async (name) => {
      const method = name.split(" ")[0] as Method
      const { path, body } = await WRITES[name]!()
      const rows = await rowsNow()
      const before = { ids: idsIn(rows), timers: await timersNow() }
      const dry = await ask(api, method, dryOf(path), body)
      expect(await rowsNow()).toEqual(rows)
      const real = await ask(api, method, path, body)
      expect(real.body.error).toBeUndefined()
      const { meta, ...shown } = dry.body
      expect([dry.status, comparable(before.ids)(shown)]).toEqual([real.status, comparable(before.ids)(real.body)])
      expect(dry.headers.get("x-service-billable")).toBe("false")
      expect(meta.dry_run).toBe(true)
      const did = await brought(before)
      // Timers of several actors have no order.
      const inOrder = ({ timers, ...others }: Awaited<ReturnType<typeof brought>>) => ({
        ...others,
        timers: sorted(timers),
      })
      expect(comparable(before.ids)(inOrder(meta.changes))).toEqual(comparable(before.ids)(inOrder(did)))
    },
  )

  it("with assume=failure fails all payments", async () => {
    const { customer, plan } = await subject()
    const body = { customer, plan, ...METHOD }
    const { data: shown, meta } = (await api.post(dryOf("/subscriptions", "&assume=failure"), body)).body
    const refused = { ...body, payment_method: "pm_test_insufficient_funds" }
    expect(shown.status).toBe(data(await api.post("/subscriptions", refused), 201).status)
    expect(meta.changes.charges).toMatchObject([{ status: "failed", failure_code: "insufficient_funds" }])
    const paid = (await api.post(dryOf("/subscriptions", "&assume=success"), refused)).body
    expect([paid.data.status, paid.meta.changes.charges[0].status]).toEqual(["active", "succeeded"])
  })

  it("of a new default method pays overdue bills by itself, and uses no method up", async () => {
    const overdue = await startServer(database.url())
    const method = "pm_test_success_then_insufficient_funds"
    const { clock, customer } = await subscribe(api, "2025-01-31T09:00:00Z", method)
    await advance(api, clock, "2025-03-01T09:00:00Z")
    expect(await overdue.stop()).toBe(0)
    const rows = await rowsNow()
    const patched = (query: string) =>
      api.patch(`/customers/${customer}${query}`, { default_payment_method: "pm_test_success" })
    const { meta } = (await patched("?dry_run=true")).body
    expect(meta.changes.charges.map(({ status }: { status: string }) => status)).toEqual(["succeeded"])
    expect(await rowsNow()).toEqual(rows)
    const failing = (await patched("?dry_run=true&assume=failure")).body.meta.changes.charges
    expect(failing.map(({ status }: { status: string }) => status)).toEqual(["failed"])
    data(await patched(""))
    expect((await api.all(`/charges?customer=${customer}`))[0].status).toBe("succeeded")
  })

  it("that waits for a lock leaves connections to the account's real writes", async () => {
    const { id } = await subscribed()
    const locked = await lockUntilReleased(
      database,
      (sql) => sql`SELECT 1 FROM subscription WHERE id = ${id} FOR UPDATE`,
    )
    const dry = Array.from({ length: 20 }, () => api.patch(dryOf(`/subscriptions/${id}`), { quantity: 2 }))
    await locked.waiters(3)
    data(await api.post("/customers", { name: "Meanwhile" }), 201)
    await locked.release()
    for (const answer of await Promise.all(dry)) expect(answer.status).toBe(200)
  })

  it("is refused as the real one is", async () => {
    const { customer } = await subject()
    for (const body of [{ customer }, { customer, plan: "plan_none", ...METHOD }, { nmae: "x" }]) {
      const [dry, real] = [await api.post(dryOf("/subscriptions"), body), await api.post("/subscriptions", body)]
      expect([dry.status, dry.body.error.code, dry.body.error.param, dry.body.error.message]).toEqual([
        real.status,
        real.body.error.code,
        real.body.error.param,
        real.body.error.message,
      ])
    }
  })

  it("has parameters that are checked", async () => {
    const plan = { name: "Gym", amount: 500_000, currency: "NGN", billing_cycle: "monthly" }
    const post = (query: string, headers = {}) => api.post(`/plans?${query}`, plan, headers)
    expect(refusal(await post("dry_run=yes"))).toEqual([400, "parameter_invalid", "dry_run"])
    expect(refusal(await post("dry_run=true&dry_run=true"))).toEqual([400, "parameter_invalid", "dry_run"])
    expect(refusal(await post("dry_run=true&assume=luck"))).toEqual([400, "parameter_invalid", "assume"])
    expect(refusal(await post("assume=success"))).toEqual([400, "parameter_invalid", "assume"])
    expect(refusal(await post("dry_run=true", { "idempotency-key": "dry" }))).toEqual([
      400,
      "parameter_invalid",
      "Idempotency-Key",
    ])
    expect(data(await post("dry_run=false", { "idempotency-key": "wet" }), 201).object).toBe("plan")
    for (const path of ["/webhook-endpoints", "/test/clocks"])
      expect(refusal(await api.post(`${path}?dry_run=true`, {}))).toEqual([400, "parameter_unknown", "dry_run"])
    expect(refusal(await api.get("/plans?dry_run=true"))).toEqual([400, "parameter_unknown", "dry_run"])
  })

  it("is not counted in live", async () => {
    const usage = async () => data(await live.get("/usage")).write_requests
    const before = await usage()
    const answer = await live.post(dryOf("/customers"), { name: "Ada" })
    expect([answer.status, answer.headers.get("x-service-billable")]).toEqual([201, "false"])
    expect(await usage()).toEqual(before)
  })
})
