/** Tests endpoints' answers as bytes: interim responses are skipped, and the status line decides (decision I2). */
import { once } from "node:events"
import { type AddressInfo, createServer, type Socket } from "node:net"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { useOwnInstance } from "../support/instance.ts"
import { data, eventually } from "../support/story.ts"

const { api } = useOwnInstance(() => ({ ALLOW_LOOPBACK_WEBHOOKS: "true" }))

/** An endpoint's answer, by its path, and the number of its calls. */
const endpoints = new Map<string, { readonly answer: (socket: Socket) => void; calls: number }>()
const sockets = new Set<Socket>()
const server = createServer((socket) => {
  sockets.add(socket.on("error", () => {}))
  let request = ""
  socket.setEncoding("utf8").on("data", (part: string) => {
    request += part
    const [, path, length] = /^POST (\S+)[\s\S]*\r\ncontent-length: (\d+)/i.exec(request) ?? []
    const end = request.indexOf("\r\n\r\n")
    if (path === undefined || end < 0 || Buffer.byteLength(request.slice(end + 4)) < Number(length)) return
    request = ""
    const endpoint = endpoints.get(path)!
    endpoint.calls++
    endpoint.answer(socket)
  })
})
beforeAll(async () => {
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
})
afterAll(() => {
  for (const socket of sockets) socket.destroy()
  server.close()
})

const saying = (text: string) => (socket: Socket) => void socket.write(text)
const breakingOff = (text: string) => (socket: Socket) => void socket.end(text)

/** Sends an event to an endpoint with this answer. Returns its delivery after the first try. */
const deliver = async (answer: (socket: Socket) => void) => {
  const path = `/hook-${endpoints.size + 1}`
  const endpoint = { answer, calls: 0 }
  endpoints.set(path, endpoint)
  // Its own type: no other endpoint gets it.
  const type = `answers.${"x".repeat(endpoints.size)}`
  const { id } = data(
    await api.post("/webhook-endpoints", {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`,
      enabled_events: [type],
    }),
    201,
  )
  const event = data(await api.post("/test/events/trigger", { type }), 201)
  const delivery = await eventually(async () => {
    const [one] = data(await api.get(`/events/${event.id}/deliveries`))
    return one.attempt > 0 ? one : undefined
  }, 60_000)
  return { id, delivery, endpoint }
}

const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n"
const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

describe("interim responses", () => {
  it.each([
    ["100", CONTINUE],
    ["102", "HTTP/1.1 102 Processing\r\n\r\n"],
    ["103 with a header of the final answer's", "HTTP/1.1 103 Early Hints\r\nRetry-After: 3600\r\n\r\n"],
    ["several", CONTINUE.repeat(3)],
  ])("are skipped: %s", async (_, interim) => {
    const { id, delivery, endpoint } = await deliver(saying(interim + OK))
    expect(delivery).toMatchObject({ status: "succeeded", attempt: 1, response_status: 200, response_body: "ok" })
    expect(data(await api.post(`/webhook-endpoints/${id}/test`))).toMatchObject({
      delivered: true,
      response_status: 200,
    })
    expect(endpoint.calls).toBe(2)
  })

  it("before a refusal do not change it", async () => {
    const { delivery } = await deliver(saying(`${CONTINUE}HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n`))
    expect(delivery).toMatchObject({ status: "pending", response_status: 503, failure_reason: "response_status" })
  })

  it("are not an answer if no final one follows", async () => {
    const { delivery } = await deliver(breakingOff(CONTINUE))
    expect(delivery).toMatchObject({ status: "pending", response_status: null, failure_reason: "connection_failed" })
  })
})

describe("the status line decides", () => {
  it.each([
    ["breaks off", breakingOff("HTTP/1.1 202 Accepted\r\nContent-Length: 100\r\n\r\nfi"), 202],
    ["breaks off in a chunk", breakingOff("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfi"), 200],
    ["is no chunk", saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nfi\r\nzz\r\n"), 200],
    // Accepted after the timeout.
    ["does not end", saying("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfi"), 200],
  ])("and a delivery has succeeded if the body of 2xx %s", async (_, answer, status) => {
    const { delivery, endpoint } = await deliver(answer)
    expect(delivery).toMatchObject({
      status: "succeeded",
      response_status: status,
      response_body: "fi",
      failure_reason: null,
      next_attempt_at: null,
    })
    expect(endpoint.calls).toBe(1)
  })

  it("and it has failed by its status if another body breaks off", async () => {
    const { delivery } = await deliver(breakingOff("HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nfi"))
    expect(delivery).toMatchObject({ status: "pending", response_status: 500, failure_reason: "response_status" })
    const gone = await deliver(breakingOff("HTTP/1.1 410 Gone\r\nContent-Length: 100\r\n\r\n"))
    await eventually(async () => {
      const { status, disabled_reason } = data(await api.get(`/webhook-endpoints/${gone.id}`))
      return status === "disabled" && disabled_reason === "endpoint_gone" ? true : undefined
    })
  })
})
