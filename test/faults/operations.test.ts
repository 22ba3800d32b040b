/** Tests the operator's view: logs, metrics, traces. */
import { once } from "node:events"
import { Agent, createServer, request as httpRequest, type IncomingMessage } from "node:http"
import { type AddressInfo, connect } from "node:net"
import { Deferred, Effect } from "effect"
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createApi } from "../support/api.ts"
import { useDatabase } from "../support/database.ts"
import { startServer } from "../support/server.ts"
import { closed } from "../support/sockets.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"

const database = useDatabase()

/** A server that accepts everything sent to it, by path. */
const startCollector = async () => {
  const received: Array<{ readonly path: string; readonly body: string }> = []
  const server = createServer((request, response) => {
    let body = ""
    request.setEncoding("utf8").on("data", (chunk) => {
      body += chunk
    })
    request.on("end", () => {
      received.push({ path: request.url ?? "", body })
      response.writeHead(200, { "content-type": "application/json" }).end("{}")
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const { port } = server.address() as AddressInfo
  return { received, port, close: () => new Promise((resolve) => server.close(resolve)) }
}

describe("a running server", () => {
  it("logs each request as a line of JSON with its IDs and no secrets, counts it, and sends traces", async () => {
    const collector = await startCollector()
    // A port that was free a moment ago.
    const free = await startCollector()
    await free.close()
    const { keys } = await database.run(() => createAccount({ businessName: "Seen" }))
    const server = await startServer(database.url(), {
      LOG_LEVEL: "info",
      LOG_FORMAT: "json",
      METRICS_PORT: String(free.port),
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${collector.port}`,
    })
    let logs = ""
    server.process.stderr?.on("data", (chunk) => {
      logs += chunk
    })
    const api = createApi(server.origin, keys.sk_test)
    const customer = await createCustomer(api)
    const body = { customer, plan: await createPlan(api), payment_method: "pm_test_success" }
    const created = await api.post("/subscriptions", body, { "x-request-id": "caller-7" })
    data(created, 201)
    const foreign = "4bf92f3577b34da6a3ce929d0e0e4736"
    const traceparent = `00-${foreign}-00f067aa0ba902b7-01`
    await api.request("GET", "/customers?email=ada%40example.com", undefined, { traceparent })

    const requestId = created.headers.get("x-request-id")
    const line = await eventually(async () =>
      logs
        .split("\n")
        .filter(Boolean)
        .map((text) => JSON.parse(text) as { message: unknown; annotations: Record<string, unknown> })
        .find(({ annotations }) => annotations.request_id === requestId),
    )
    expect(line.annotations).toMatchObject({
      method: "POST",
      route: "/subscriptions",
      status: 201,
      caller_request_id: "caller-7",
      trace_id: expect.stringMatching(/^[0-9a-f]{32}$/),
    })
    expect(logs).not.toContain(keys.sk_test)
    expect(logs).not.toContain("ada%40example.com")

    const metrics = await (await fetch(`http://127.0.0.1:${free.port}/metrics`)).text()
    expect(metrics).toMatch(
      /http_requests_total\{[^}]*route="\/subscriptions"[^}]*\} 1|http_requests_total\{[^}]*status="201"[^}]*\}/,
    )
    for (const name of [
      "http_request_duration_seconds_bucket",
      "billing_timers_overdue",
      "billing_nudges_waiting",
      "billing_webhook_endpoints_failing",
      "billing_timer_lag_seconds",
      "billing_charges_pending",
      "billing_rail_calls_waiting",
      "billing_reconciliation_exceptions",
    ])
      expect(metrics).toContain(name)
    expect((await fetch(`http://127.0.0.1:${free.port}/other`)).status).toBe(404)

    const trace = await eventually(async () =>
      collector.received.find(
        ({ path, body }) => path === "/v1/traces" && body.includes(String(line.annotations.trace_id)),
      ),
    )
    expect(trace.body).toContain("recurring-billing")
    expect(await server.stop()).toBe(0)
    // Spans use declared route names. Neither the requested path nor a foreign trace ID counts.
    const sent = collector.received.map(({ body }) => body).join()
    expect(sent).toContain('"http.route"')
    for (const secret of [keys.sk_test, "ada@example.com", "ada%40example.com", "email=", foreign])
      expect(sent).not.toContain(secret)
    await collector.close()
  })
})

/** A connection on which `text` has been sent. */
const dial = async (origin: string, text: string) => {
  const { port, hostname } = new URL(origin)
  const socket = connect(Number(port), hostname)
  await once(socket, "connect")
  if (text !== "") await new Promise((resolve) => socket.write(text, resolve))
  return { closed: closed(socket) }
}

describe("a server that gets SIGTERM", () => {
  it("settles the charges it has started, also those that a job started", async () => {
    const { account, keys } = await database.run(() => createAccount({ businessName: "Due immediately" }))
    const server = await startServer(database.url())
    const api = createApi(server.origin, keys.sk_test)
    const customer = await createCustomer(api)
    const plan = await createPlan(api)
    // Near enough for a job. On a slow machine some are made too late.
    const start_at = new Date(Date.now() + 3_000).toISOString()
    const body = { customer, plan, payment_method: "pm_test_success", start_at }
    await Promise.all(Array.from({ length: 200 }, () => api.post("/subscriptions", body)))
    const charged = () =>
      database.run((sql) => sql`SELECT DISTINCT status FROM charge WHERE account_id = ${account.id}`)
    await eventually(async () => ((await charged()).length > 0 ? true : undefined))
    expect(await server.stop()).toBe(0)
    expect(await charged()).toEqual([{ status: "succeeded" }])
    expect(server.output()).not.toContain("ERROR")
  })

  it("closes silent connections immediately, and lets active requests finish", async () => {
    const { keys } = await database.run(() => createAccount({ businessName: "At work" }))
    const server = await startServer(database.url())
    const api = createApi(server.origin, keys.sk_test)
    const customer = await createCustomer(api)
    const head = `Host: localhost\r\nAuthorization: Bearer ${keys.sk_test}\r\nContent-Type: application/json\r\n`
    const silent = await dial(server.origin, "")
    const headless = await dial(server.origin, "GET /healthz HTTP/1.1\r\nHost: ")
    const bodiless = await dial(
      server.origin,
      `POST /sandbox/v1/customers HTTP/1.1\r\n${head}Content-Length: 20\r\n\r\n{`,
    )
    const agent = new Agent({ keepAlive: true })
    const idle = httpRequest(`${server.origin}/healthz`, { agent }).end()
    const [response] = (await once(idle, "response")) as [IncomingMessage]
    expect(response.headers.connection).toBe("keep-alive")
    await once(response.resume(), "end")
    const idleClosed = closed(idle.socket!)

    const [locked, letGo] = [Deferred.makeUnsafe<void>(), Deferred.makeUnsafe<void>()]
    const holding = database.run((sql) =>
      sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`SELECT 1 FROM customer WHERE id = ${customer} FOR UPDATE`
          yield* Deferred.succeed(locked, undefined)
          yield* Deferred.await(letGo)
        }),
      ),
    )
    await Effect.runPromise(Deferred.await(locked))
    const atWork = api.patch(`/customers/${customer}`, { name: "Ada Eze" })
    await eventually(async () => {
      const [row] = await database.run(
        (sql) => sql<{ waiting: number }>`
          SELECT count(*) AS waiting FROM pg_stat_activity
          WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%customer%'`,
      )
      return row!.waiting > 0 ? true : undefined
    })

    const code = server.stop()
    // A second signal has the effect of one.
    server.process.kill("SIGTERM")
    await Promise.all([silent.closed, idleClosed])
    await expect(fetch(server.origin)).rejects.toThrow()
    Deferred.doneUnsafe(letGo, Effect.void)
    await holding
    const answer = await atWork
    expect(data(answer).name).toBe("Ada Eze")
    expect(answer.headers.get("connection")).toBe("close")
    await Promise.all([headless.closed, bodiless.closed])
    expect(await code).toBe(0)
  })
})
