/** A merchant's endpoint on this machine: receives webhooks, and gives configured answers. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeAll } from "vitest"

export interface Received {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly event: {
    readonly id: string
    readonly type: string
    readonly data: { readonly object: { readonly id: string } }
  }
}

type Answering = (received: Received, response: ServerResponse) => void

const fine: Answering = (_, response) => void response.writeHead(200).end("fine")

/** Call at the top of a test file. Deliveries are recorded by path. A path answers 200 by default. */
export const useReceiver = () => {
  const received: Array<Received> = []
  const answers = new Map<string, Answering>()
  const server = createServer((request, response) => {
    let body = ""
    // A character may arrive in two parts.
    request.setEncoding("utf8").on("data", (chunk) => {
      body += chunk
    })
    request.on("end", () => {
      const path = request.url ?? ""
      const one = { path, headers: request.headers, body, event: JSON.parse(body) as Received["event"] }
      received.push(one)
      ;(answers.get(path) ?? fine)(one, response)
    })
  })
  beforeAll(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)))
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })
  const port = () => (server.address() as AddressInfo).port
  return {
    port,
    url: (path: string) => `http://127.0.0.1:${port()}${path}`,
    at: (path: string) => received.filter((one) => one.path === path),
    answer: (path: string, answering: Answering) => void answers.set(path, answering),
  }
}
