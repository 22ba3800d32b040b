/** Tests the result of calls to a rail that went wrong (decisions P3, P9). */
import { once } from "node:events"
import type { ServerResponse } from "node:http"
import { createServer as createTlsServer } from "node:https"
import { type AddressInfo, createServer, type Socket } from "node:net"
import { inspect } from "node:util"
import { Effect, Fiber, Logger, Tracer } from "effect"
import { afterAll, describe, expect, it } from "vitest"
import { OUTSIDE_RAILS } from "../../src/rails/rail/Rail.ts"
import { Rails } from "../../src/rails/rail/Rails.ts"
import { CERTIFICATE, CERTIFICATE_KEY } from "../support/certificate.ts"
import { KEYS, saying, useRailServer } from "../support/railServer.ts"
import { CALLS, charge } from "./calls.ts"

const server = useRailServer()

const EACH = OUTSIDE_RAILS.flatMap((name) =>
  (Object.keys(CALLS) as ReadonlyArray<keyof typeof CALLS>).map((call) => [name, call] as const),
)

/** The expected result of every call of every rail. */
const resultsOfAll = (over: object = {}) =>
  Promise.all(EACH.map(([name, call]) => server.resultOf<object>(name, (rail) => CALLS[call](rail), over)))
const alike = (one: unknown) => EACH.map(() => one)
const unclear = (message: string, reached = false) => ({ kind: "unclear", message, reached })

const servers: Array<{ close: () => void }> = []
afterAll(() => {
  for (const one of servers) one.close()
})
/** Makes `serve` handle every connection. */
const listen = async (serve: (socket: Socket) => void): Promise<string> => {
  const sockets = new Set<Socket>()
  const listening = createServer((socket) => {
    sockets.add(socket.on("error", () => undefined))
    serve(socket)
  }).listen(0, "127.0.0.1")
  servers.push({
    close: () => {
      listening.close()
      for (const socket of sockets) socket.destroy()
    },
  })
  await once(listening, "listening")
  return `http://127.0.0.1:${(listening.address() as AddressInfo).port}`
}
const at = (url: string) => ({ urls: { paystack: url, flutterwave: url } })

describe("a rail that answers", () => {
  it.each([
    [429, {}, { kind: "rate_limited", retryAfterMs: null }],
    [429, { "retry-after": "7" }, { kind: "rate_limited", retryAfterMs: 7_000 }],
    [429, { "retry-after": "Sat, 01 Jan 2000 00:00:00 GMT" }, { kind: "rate_limited", retryAfterMs: 0 }],
    [429, { "retry-after": "soon" }, { kind: "rate_limited", retryAfterMs: null }],
    [429, { "retry-after": "-1" }, { kind: "rate_limited", retryAfterMs: null }],
    [408, {}, unclear("HTTP 408", true)],
    [409, {}, unclear("HTTP 409", true)],
    [425, {}, unclear("HTTP 425", true)],
    [302, { location: "/elsewhere" }, unclear("HTTP 302", true)],
    [500, {}, unclear("HTTP 500")],
    [503, { "retry-after": "7" }, unclear("HTTP 503")],
  ])("%i with JSON and %j", async (status, headers, expected) => {
    server.answer(saying(status, { status: "error", message: "An error occurred" }, headers))
    expect(await resultsOfAll()).toEqual(alike(expected))
    expect(server.sent).toHaveLength(EACH.length)
  })

  it("429 with a date waits until then", async () => {
    const date = new Date(Date.now() + 3_600_000).toUTCString()
    server.answer(saying(429, "slow down", { "retry-after": date }))
    const result = await server.resultOf("paystack", charge)
    if (result.kind !== "rate_limited") throw new Error(result.kind)
    expect(result.retryAfterMs).toBeGreaterThan(3_000_000)
    expect(result.retryAfterMs).toBeLessThanOrEqual(3_600_000)
  })

  it.each(["<html>Unauthorized</html>", "", "{}", "[]"])(
    "401, which refuses the account with any text: %s",
    async (body) => {
      server.answer(saying(401, body))
      expect(await resultsOfAll()).toEqual(alike({ kind: "refused", code: "rail_misconfigured", message: null }))
    },
  )

  it.each([200, 204, 400, 403, 404, 409, 502])("%i without JSON", async (status) => {
    for (const body of ["<html>Bad gateway</html>", "", '{"status": true, "da']) {
      server.answer(saying(status, body))
      expect(await resultsOfAll()).toEqual(alike(unclear(`HTTP ${status} without JSON`)))
    }
  })

  it.each([200, 400, 403, 404])("%i with JSON in another format", async (status) => {
    for (const body of [
      [],
      {},
      "5",
      "null",
      '"yes"',
      "[".repeat(200_000),
      { status: true },
      { status: "success", data: {} },
    ]) {
      server.answer(saying(status, body))
      for (const result of await resultsOfAll()) expect(result).toMatchObject({ kind: "unclear" })
    }
  })

  it("after interim responses, which are skipped", async () => {
    const body = JSON.stringify({ status: "error", message: "An error occurred" })
    const answer = `HTTP/1.1 409 Conflict\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    let calls = 0
    for (const interim of ["100 Continue", "102 Processing", "103 Early Hints"]) {
      const url = await listen((socket) =>
        socket.on("data", (part) => {
          // Head and body may arrive separately.
          if (!/^(?:GET|POST) /.test(part.toString("latin1"))) return
          calls++
          socket.write(`HTTP/1.1 ${interim}\r\n\r\n${answer}`)
        }),
      )
      expect(await resultsOfAll(at(url))).toEqual(alike(unclear("HTTP 409", true)))
    }
    expect(calls).toBe(3 * EACH.length)
  })

  it("over 1 MiB", async () => {
    server.answer(saying(200, JSON.stringify({ status: true, filler: "x".repeat(1024 * 1024) })))
    expect(await resultsOfAll()).toEqual(alike(unclear("an answer of over 1 MiB")))
  })
})

describe("a rail that does not answer", () => {
  it("in time", async () => {
    server.answer(() => undefined)
    expect(await resultsOfAll({ timeoutMs: 2_000 })).toEqual(alike(unclear("no answer within 2 s")))
  })

  it("completely in time", async () => {
    server.answer((response) => void response.writeHead(200).write('{"status":'))
    expect(await resultsOfAll({ timeoutMs: 2_000 })).toEqual(alike(unclear("no answer within 2 s")))
  })

  it("because the connection breaks before the answer", async () => {
    server.answer((response) => void response.socket?.destroy())
    expect(await resultsOfAll()).toEqual(alike(unclear("connection failed: UND_ERR_SOCKET")))
    expect(server.sent).toHaveLength(EACH.length)
  })

  it("because the connection breaks in the middle of the answer", async () => {
    server.answer((response) => {
      response.writeHead(200, { "content-length": "100" })
      response.write('{"status":', () => response.socket?.destroy())
    })
    for (const result of await resultsOfAll()) expect(result).toMatchObject({ kind: "unclear", reached: false })
  })

  it("because a reused connection is closed as the next call comes", async () => {
    let calls = 0
    const answer = (response: ServerResponse) => {
      calls += 1
      if (calls === 1) return saying(429, "")(response, response.req)
      response.socket?.destroy()
    }
    server.answer(answer)
    const result = await server.resultOf("paystack", (rail) => Effect.all([charge(rail), charge(rail)]))
    expect(result).toEqual([{ kind: "rate_limited", retryAfterMs: null }, unclear("connection failed: UND_ERR_SOCKET")])
    expect(calls).toBe(2)
  })

  it("in HTTP", async () => {
    const url = await listen((socket) => socket.end("SSH-2.0-OpenSSH_9.2\r\n"))
    for (const result of await resultsOfAll(at(url))) expect(result).toMatchObject({ kind: "unclear", reached: false })
  })
})

describe("a rail that cannot be reached", () => {
  const notSent = (message: string) => alike({ kind: "not_sent", message })

  it("no listener at the port", async () => {
    const listening = createServer().listen(0, "127.0.0.1")
    await once(listening, "listening")
    const { port } = listening.address() as AddressInfo
    await new Promise((resolve) => listening.close(resolve))
    expect(await resultsOfAll(at(`http://127.0.0.1:${port}`))).toEqual(notSent("connection failed: ECONNREFUSED"))
  })

  it("unknown host name", async () => {
    for (const result of await resultsOfAll(at("https://rail.invalid")))
      expect(result).toMatchObject({ kind: "not_sent" })
  })

  it("an invalid certificate", async () => {
    const https = createTlsServer({ cert: CERTIFICATE, key: CERTIFICATE_KEY }, (_, response) => {
      response.end('{"status":true}')
    }).listen(0, "127.0.0.1")
    await once(https, "listening")
    servers.push(https)
    const url = `https://127.0.0.1:${(https.address() as AddressInfo).port}`
    expect(await resultsOfAll(at(url))).toEqual(notSent("connection failed: DEPTH_ZERO_SELF_SIGNED_CERT"))
  })

  it("the connection breaks during the TLS handshake", async () => {
    const url = await listen((socket) => void socket.once("data", () => socket.destroy()))
    for (const result of await resultsOfAll(at(url.replace("http:", "https:"))))
      expect(result).toMatchObject({ kind: "not_sent" })
  })

  it("a TLS handshake that never ends, within the call's timeout", async () => {
    const url = await listen(() => undefined)
    for (const result of await resultsOfAll({ ...at(url.replace("http:", "https:")), timeoutMs: 1_000 }))
      expect(result).toMatchObject({ kind: "not_sent" })
  })

  it("a rail whose connections are all in use: the call is never sent", async () => {
    const late: Array<ServerResponse> = []
    server.answer((response) => void late.push(response))
    const results = await server.resultOf(
      "paystack",
      (rail) =>
        Effect.all(
          Array.from({ length: 21 }, () => charge(rail)),
          { concurrency: "unbounded" },
        ),
      { timeoutMs: 3_000 },
    )
    // A slow machine may free a connection before the last one's timeout: then it is sent.
    const sent = results.filter(({ kind }) => kind === "unclear").length
    expect(sent).toBeGreaterThanOrEqual(20)
    expect(results.filter(({ kind }) => kind === "not_sent")).toHaveLength(21 - sent)
    expect(server.sent).toHaveLength(sent)
    expect(late).toHaveLength(sent)
  })
})

it("a cancelled call closes its connection", async () => {
  let closed: Promise<unknown> | undefined
  const arrived = new Promise<void>((resolve) => {
    server.answer((response) => {
      closed = once(response, "close")
      resolve()
    })
  })
  await server.resultOf("paystack", (rail) =>
    Effect.gen(function* () {
      const calling = yield* Effect.forkChild(charge(rail))
      yield* Effect.promise(() => arrived)
      yield* Fiber.interrupt(calling)
      yield* Effect.promise(async () => closed)
    }),
  )
  expect(server.sent).toHaveLength(1)
})

it("spans and logs of a call name the rail and no secrets", async () => {
  server.answer(saying(401, { status: false, message: "Invalid key" }))
  const spans: Array<Tracer.Span> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    },
  })
  const logged: Array<unknown> = []
  const logger = Logger.layer([Logger.make(({ message }) => void logged.push(message))])
  for (const name of OUTSIDE_RAILS)
    await server.resultOf(name, (rail) => charge(rail).pipe(Effect.withTracer(tracer), Effect.provide(logger)))
  expect(spans.map((span) => span.name)).toEqual(["paystack.charge", "flutterwave.charge"])
  const output = inspect([spans, logged], { depth: 10 })
  for (const secret of [KEYS.paystack.secret_key!, KEYS.flutterwave.secret_key!, "AUTH_1a2b"])
    expect(output).not.toContain(secret)
})

it("connections are closed with the layer", async () => {
  let closed: Promise<unknown> | undefined
  server.answer((response, request) => {
    closed = once(request.socket, "close")
    saying(429, "")(response, request)
  })
  const urls = { paystack: server.url(), flutterwave: server.url() }
  await Effect.runPromise(
    Effect.provide(
      Effect.flatMap(Rails, (rails) => charge(rails.of("paystack"))),
      Rails.layer({ urls, timeoutMs: 20_000 }),
    ),
  )
  await closed
})
