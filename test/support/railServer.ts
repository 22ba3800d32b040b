/** A rail on this machine: records requests, and gives configured answers. */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { Effect, Redacted } from "effect"
import { afterAll, beforeAll, beforeEach } from "vitest"
import type { Credentials, OutsideRail, Rail } from "../../src/rails/rail/Rail.ts"
import { Rails } from "../../src/rails/rail/Rails.ts"

export interface Sent {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

type Answering = (response: ServerResponse, request: IncomingMessage) => void

export const KEYS: Readonly<Record<OutsideRail, Readonly<Record<string, string>>>> = {
  paystack: { secret_key: "sk_live_51a3f0c9" },
  flutterwave: { secret_key: "FLWSECK-9b2e47d1-X", webhook_secret: "hook-77c1" },
}

export const credentialsOf = (name: OutsideRail): Credentials =>
  Object.fromEntries(Object.entries(KEYS[name]).map(([key, value]) => [key, Redacted.make(value)]))

/** Answers with JSON, or with a text unchanged. */
export const saying =
  (status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Answering =>
  (response) => {
    const isText = typeof body === "string"
    response.writeHead(status, { "content-type": isText ? "text/html" : "application/json", ...headers })
    response.end(isText ? body : JSON.stringify(body))
  }

/** Call at the top of a test file. */
export const useRailServer = () => {
  const sent: Array<Sent> = []
  let answering: Answering = saying(500, "")
  const server = createServer((request, response) => {
    const parts: Array<Buffer> = []
    request.on("data", (part) => parts.push(part))
    request.on("end", () => {
      const { method = "", url: path = "", headers } = request
      sent.push({ method, path, headers, body: Buffer.concat(parts).toString("utf8") })
      answering(response, request)
    })
  })
  beforeAll(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)))
  beforeEach(() => void sent.splice(0))
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    sent,
    answer: (how: Answering) => {
      answering = how
    },
    /** The result of `ask` for a rail at this server, or at `over`. */
    resultOf: <A>(name: OutsideRail, ask: (rail: Rail) => Effect.Effect<A>, over: object = {}): Promise<A> => {
      const urls = { paystack: url(), flutterwave: url() }
      const layer = Rails.layer({ urls, timeoutMs: 20_000, ...over })
      return Effect.runPromise(
        Effect.provide(
          Effect.flatMap(Rails, (rails) => ask(rails.of(name))),
          layer,
        ),
      )
    },
  }
}
