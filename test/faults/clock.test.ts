/** Tests a process whose clock differs from the database's (decision D10): at its start, later, and in a command. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Redacted } from "effect"
import { afterAll, describe, expect, it } from "vitest"
import { isRequired } from "../../scripts/debian.ts"
import { clockOf, FAKETIME_MISSING, findFaketime, setClock } from "../../scripts/faketime.ts"
import { isMadeSince } from "../../src/base/ids.ts"
import { DAY_MS, SECOND_MS } from "../../src/base/time.ts"
import { type Api, createApi } from "../support/api.ts"
import { useOwnInstance } from "../support/instance.ts"
import { holdPort } from "../support/ports.ts"
import { useReceiver } from "../support/receiver.ts"
import { runToEnd, type Server, startServer } from "../support/server.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"

const library = findFaketime()
const folder = mkdtempSync(join(tmpdir(), "clock-"))
afterAll(() => rmSync(folder, { recursive: true }))

const { api, database, keys } = useOwnInstance(() => ({ ALLOW_LOOPBACK_WEBHOOKS: "true" }))
const receiver = useReceiver()

/** Far more than a check of the database's clock takes, and more than the first runs of all background work. */
const WATCHED_MS = 6 * SECOND_MS

interface Refusal {
  readonly status: string
  readonly message: string
}

/** The answer of a process that is not ready. undefined if it does not answer, or is ready. */
const notReady = async (origin: string): Promise<Refusal | undefined> => {
  const answer = await fetch(`${origin}/readyz`).catch(() => undefined)
  return answer?.status === 503 ? ((await answer.json()) as Refusal) : undefined
}

const isReady = async (origin: string): Promise<true | undefined> =>
  (await fetch(`${origin}/readyz`)).status === 200 ? true : undefined

const databaseAt = ({ message }: Refusal): number => Date.parse(/the database's (\S+Z)/.exec(message)![1]!)

/** Waits until the process has reported for long enough, by the database's clock, that the clocks differ. */
const staysRefused = async (origin: string): Promise<void> => {
  const first = await eventually(() => notReady(origin))
  await eventually(async () => {
    const now = await notReady(origin)
    expect(now).toMatchObject({ status: "clocks disagree" })
    return databaseAt(now!) - databaseAt(first) > WATCHED_MS ? true : undefined
  })
}

const refused = async (own: Api, origin: string): Promise<void> => {
  for (const answer of [await own.get("/customers"), await own.post("/customers", { name: "Ada Obi" })]) {
    expect([answer.status, answer.body.error.code]).toEqual([503, "service_unavailable"])
    expect(answer.body.error.message).toContain("clocks")
    expect(answer.headers.get("retry-after")).toMatch(/^\d+$/)
  }
  const page = await fetch(`${origin}/checkout/cs_none`)
  expect([page.status, page.headers.get("content-type")]).toEqual([503, "text/html; charset=utf-8"])
  expect((await fetch(`${origin}/healthz`)).status).toBe(200)
}

/** Everything that a clock 40 days ahead would charge, expire or delete, and that one 40 days behind would not know. */
const openShop = async () => {
  const endpoint = receiver.url(`/${crypto.randomUUID()}`)
  receiver.answer(new URL(endpoint).pathname, (_, response) => void response.writeHead(500).end())
  data(await api.post("/webhook-endpoints", { url: endpoint, enabled_events: ["*"] }), 201)
  const plan = await createPlan(api)
  const customer = await createCustomer(api)
  const subscription = data(
    await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }),
    201,
  ).id
  const session = data(
    await api.post("/checkout-sessions", {
      mode: "subscription",
      plan,
      success_url: "https://shop.example/thanks",
      cancel_url: "https://shop.example/",
    }),
    201,
  ).id
  const seen = async () => ({
    charges: (await api.all("/charges")).map(({ id, status }) => [id, status]),
    events: (await api.all("/events")).map(({ id, type }) => [id, type]),
    subscription: data(await api.get(`/subscriptions/${subscription}`)),
    session: data(await api.get(`/checkout-sessions/${session}`)).status,
    waiting: await database.run(
      (sql) => sql`SELECT id FROM webhook_delivery WHERE status = 'pending' AND NOT livemode ORDER BY id`,
    ),
  })
  await eventually(async () => ((await seen()).waiting.length > 0 ? true : undefined))
  return { plan, seen }
}

/** A process whose clock reads a file of its own, from its start. */
const startWith = async (difference: string) => {
  const file = join(folder, crypto.randomUUID())
  setClock(file, difference)
  const { port, release } = await holdPort()
  release()
  const origin = `http://127.0.0.1:${port}`
  const env = { ...clockOf(library!, file), PORT: String(port), LOG_LEVEL: "info" }
  return { file, origin, own: createApi(origin, keys().sk_test), starting: startServer(database.url(), env) }
}

/** Runs a test of a process, which ends afterwards whatever its clock shows. */
const ending = async (
  { file, starting }: { readonly file: string; readonly starting: Promise<Server> },
  test: () => Promise<void>,
) => {
  try {
    await test()
  } finally {
    setClock(file, "+0")
    expect(await (await starting).stop()).toBe(0)
  }
}

describe.runIf(library !== undefined || isRequired)("a wrong clock", () => {
  it("can be simulated", () => expect(library, FAKETIME_MISSING).toBeDefined())

  it.each([
    ["+40d", /: it is \d{7} s ahead of it,/],
    ["-40d", /: it is \d{7} s behind it,/],
    ["+3s", /: it is [23]\.\d s ahead of it,/],
  ])(
    "at a start by %s blocks all work, is reported, and work continues after it is right",
    async (difference, words) => {
      const { seen } = await openShop()
      const before = await seen()
      const process = await startWith(difference)
      const { file, origin, own, starting } = process
      await ending(process, async () => {
        await staysRefused(origin)
        expect((await notReady(origin))?.message).toMatch(words)
        await refused(own, origin)
        expect(await seen()).toEqual(before)
        setClock(file, "+0")
        const server = await starting
        expect(server.output()).toMatch(/level=ERROR .*This machine's clock says \S+Z, the database's \S+Z: .* by NTP/)
        await eventually(() => isReady(origin))
        await eventually(async () => /level=INFO .*agree again/.test(server.output()) || undefined)
        data(await own.get("/customers"))
        expect(await seen()).toEqual(before)
      })
    },
  )

  it.each(["+40d", "-40d"])("is noticed when it jumps by %s, and later events stay in order", async (difference) => {
    const { plan, seen } = await openShop()
    const process = await startWith("+0")
    const { file, origin, own, starting } = process
    await ending(process, async () => {
      await starting
      const first = await createCustomer(own)
      const before = await seen()
      setClock(file, difference)
      // Immediately: the next request is refused, with no check between that would have noticed.
      await refused(own, origin)
      await staysRefused(origin)
      expect(await seen()).toEqual(before)
      setClock(file, "+0")
      await eventually(() => isReady(origin))
      const customer = await createCustomer(own)
      expect(customer > first).toBe(true)
      expect(isMadeSince(customer, Date.now() + DAY_MS)).toBe(false)
      const subscription = data(
        await own.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }),
        201,
      )
      expect(Math.abs(Date.parse(subscription.created_at) - Date.now())).toBeLessThan(DAY_MS)
      expect((await seen()).charges).toHaveLength(before.charges.length + 1)
    })
  })

  it("refuses commands that write, in one line, and allows others to read", async () => {
    const file = join(folder, "command")
    setClock(file, "+40d")
    const run = (...args: ReadonlyArray<string>) =>
      runToEnd("src/cli.ts", args, { ...clockOf(library!, file), DATABASE_URL: Redacted.value(database.url()) })
    const count = () =>
      database.run((sql) => sql`SELECT (SELECT count(*) FROM account) + (SELECT count(*) FROM invoice) AS n`)
    const before = await count()
    for (const args of [
      ["account", "create", "--business-name", "Late Lagos"],
      ["admin", "create", "--name", "Ops"],
      ["invoice", "run"],
      ["ledger", "close", "--through", "2025-01"],
    ]) {
      const { code, output, errors } = await run(...args)
      expect([code, output], args.join(" ")).toEqual([1, ""])
      expect(errors).toMatch(/^This machine's clock says .*: it is \d{7} s ahead of it, .* by NTP .*\n$/)
    }
    expect(await count()).toEqual(before)
    expect(await run("account", "list", "--json")).toMatchObject({ code: 0, errors: "" })
  })
})
