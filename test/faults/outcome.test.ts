/**
 * Tests the meaning of an answer when the database is lost during a request (decision N4). `Retry-After`: nothing was
 * done. `outcome_unknown`: it may have been done. All other answers: it was done.
 */
import type { Statement } from "effect/sql/Statement"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { type Answer, type Api, createApi } from "../support/api.ts"
import { createSession, pay } from "../support/checkout.ts"
import { type Sql, useDatabase } from "../support/database.ts"
import { beginPlan, createProduct, pay as payInstalment } from "../support/instalments.ts"
import { startProxy } from "../support/proxy.ts"
import { type Server, startServer } from "../support/server.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"
import { expectSound } from "../support/whole.ts"

const database = useDatabase()

let proxy: Awaited<ReturnType<typeof startProxy>>
/** One server loses its database; the other prepares. */
let losing: Server
let steady: Server
let api: Api
let sure: Api
let buyers: Api

beforeAll(async () => {
  const { keys } = await database.run(() => createAccount({ businessName: "Fit Lagos" }))
  proxy = await startProxy(database.url())
  losing = await startServer(proxy.url)
  steady = await startServer(database.url(), { WORKERS: "0" })
  api = createApi(losing.origin, keys.sk_test)
  sure = createApi(steady.origin, keys.sk_test)
  buyers = createApi(steady.origin, undefined)
  data(await sure.patch("/providers/me/vertical", { vertical: "ecommerce" }))
})

afterAll(async () => {
  expect([await losing.stop(), await steady.stop()]).toEqual([0, 0])
  proxy.close()
  // The rail may be asked about a charge before it reads the request. The same charge is then sent again.
  await expectSound(database)
})

/** A page's address at the server that loses its database. */
const atLosing = (url: string) => `${losing.origin}${new URL(url).pathname}`

const PAYS = { payment_method: "pm_test_success" }

/** A write that a client makes. */
interface Write {
  readonly send: (headers?: Readonly<Record<string, string>>) => Promise<Answer>
  /** One row for each time that it was done. */
  readonly done: (sql: Sql) => Statement<object>
}

let no = 0

const WRITES: Readonly<Record<string, () => Promise<Write>>> = {
  "a customer": async () => {
    const n = String(no++)
    return {
      send: (headers) => api.post("/customers", { name: "Ada Obi", metadata: { n } }, headers),
      done: (sql) => sql`SELECT 1 FROM customer WHERE metadata->>'n' = ${n}`,
    }
  },
  "a charge": async () => {
    const body = { customer: await createCustomer(sure), amount: 1000, currency: "NGN", ...PAYS }
    return {
      send: (headers) => api.post("/charges", body, headers),
      done: (sql) => sql`SELECT 1 FROM charge WHERE customer_id = ${body.customer}`,
    }
  },
  "a retry": async () => {
    const customer = await createCustomer(sure)
    const declined = { customer, amount: 1000, currency: "NGN", payment_method: "pm_test_insufficient_funds" }
    const { id } = data(await sure.post("/charges", declined), 201)
    return {
      send: (headers) => api.post(`/charges/${id}/retry`, PAYS, headers),
      done: (sql) => sql`SELECT 1 FROM charge WHERE retry_of = ${id}`,
    }
  },
  "a subscription": async () => {
    const body = { customer: await createCustomer(sure), plan: await createPlan(sure), ...PAYS }
    return {
      send: (headers) => api.post("/subscriptions", body, headers),
      done: (sql) =>
        sql`SELECT 1 FROM subscription s LEFT JOIN charge c ON c.subscription_id = s.id WHERE s.customer_id = ${body.customer}`,
    }
  },
  "a resumption": async () => {
    const plan = await createPlan(sure, { pause_enabled: true, pro_rate: false })
    const { id } = data(await sure.post("/subscriptions", { customer: await createCustomer(sure), plan, ...PAYS }), 201)
    data(await sure.post(`/subscriptions/${id}/pause`))
    return {
      send: (headers) => api.post(`/subscriptions/${id}/resume`, {}, headers),
      done: (sql) => sql`SELECT 1 FROM charge WHERE subscription_id = ${id} ORDER BY id OFFSET 1`,
    }
  },
  "a report of units": async () => {
    const plan = await createPlan(sure, { billing_cycle: "per_delivery" })
    const { id } = data(await sure.post("/subscriptions", { customer: await createCustomer(sure), plan, ...PAYS }), 201)
    return {
      send: (headers) => api.post(`/subscriptions/${id}/unit-records`, { quantity: 1 }, headers),
      done: (sql) => sql`SELECT 1 FROM unit_record WHERE subscription_id = ${id}`,
    }
  },
  "a checkout": async () => {
    const session = { customer: await createCustomer(sure), plan: await createPlan(sure) }
    const { id, url } = await createSession(sure, session)
    return {
      send: () => pay(atLosing(url), "pm_test_visa"),
      done: (sql) => sql`SELECT 1 FROM charge WHERE page_id = ${id}`,
    }
  },
  "an instalment": async () => {
    const plan = await beginPlan(buyers, await createProduct(sure), { frequency: "monthly" })
    return {
      send: () => payInstalment({ paymentUrl: atLosing(plan.paymentUrl) }),
      done: (sql) => sql`SELECT 1 FROM charge WHERE page_id = ${plan.id}`,
    }
  },
}

const timesDone = async ({ done }: Write) => (await database.run((sql) => done(sql))).length

/** The meaning of an answer: retry (nothing was done), unknown, or done wholly or in part. */
const readOutcome = ({ status, headers, body }: Answer): "again" | "unknown" | "begun" | "done" => {
  if (status !== 503) {
    expect(status, JSON.stringify(body)).toBeLessThan(300)
    return ["pending", "incomplete"].includes(body.data.status) ? "begun" : "done"
  }
  const codeAndRetry = [body.error.code, headers.get("retry-after") !== null]
  expect([
    ["service_unavailable", true],
    ["outcome_unknown", false],
  ]).toContainEqual(codeAndRetry)
  return codeAndRetry[1] === true ? "again" : "unknown"
}

const outcomes = new Set<string>()

describe.each(Object.keys(WRITES))("%s whose database is lost", (name) => {
  it("gets a truthful answer at every step", async () => {
    for (let piece = 1, isBroken = true; isBroken; piece++) {
      const write = await WRITES[name]!()
      const mended = proxy.breakAt(piece)
      const answer = await write.send()
      isBroken = mended()
      let outcome = readOutcome(answer)
      outcomes.add(outcome)
      if (outcome === "again") {
        expect(await timesDone(write)).toBe(0)
        // As the answer says. The request may use another of the lost connections.
        outcome = await eventually(async () => {
          const second = readOutcome(await write.send())
          return second === "again" ? undefined : second
        })
      }
      if (outcome === "unknown") expect(await timesDone(write)).toBeLessThanOrEqual(1)
      else expect(await timesDone(write)).toBe(1)
    }
  })
})

it("gets each kind of answer at some step", () => {
  expect([...outcomes].sort()).toEqual(["again", "begun", "done", "unknown"])
})

describe.each(["a customer", "a charge", "a subscription"])("%s with an Idempotency-Key", (name) => {
  it("is done once, whenever its database is lost, and a repeat gets its result", async () => {
    for (let piece = 1, isBroken = true; isBroken; piece++) {
      const write = await WRITES[name]!()
      const headers = { "idempotency-key": `${name} ${piece}` }
      const mended = proxy.breakAt(piece)
      const first = await write.send(headers)
      isBroken = mended()
      readOutcome(first)
      const last = await eventually(async () => {
        const again = await write.send(headers)
        return again.status < 300 ? again : undefined
      })
      expect(await timesDone(write)).toBe(1)
      if (first.status < 300) expect(last.body.data.id).toBe(first.body.data.id)
      expect((await write.send(headers)).body).toEqual(last.body)
    }
  })
})

it("all started work is finished, each payment once", async () => {
  await eventually(async () => {
    const left = await database.run((sql) => sql`SELECT 1 FROM charge WHERE status = 'pending' LIMIT 1`)
    return left.length === 0 ? true : undefined
  })
})
