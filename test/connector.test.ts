/** Tests interim responses on the connections of our HTTP clients, as bytes (decision I2). */
import { once } from "node:events"
import { type AddressInfo, createServer, type Socket } from "node:net"
import { setImmediate } from "node:timers/promises"
import { Agent, request } from "undici"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { createConnector } from "../src/base/connector.ts"

const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n"
const HINTS = "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nRetry-After: 7\r\n\r\n"
const final = (body: string, status = "200 OK") =>
  `HTTP/1.1 ${status}\r\nX-Final: yes\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`

/** The bytes that the server sends for each request, and how. Also the connections so far. */
let answer: (socket: Socket) => void = () => {}
const connections: Array<Socket> = []
const server = createServer((socket) => {
  connections.push(socket.setNoDelay(true).on("error", () => {}))
  // Each of these requests arrives in one part.
  socket.on("data", () => answer(socket))
})
const agent = new Agent({ connections: 1, connect: createConnector({ timeout: 5_000 }) })
beforeAll(async () => {
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
})
afterAll(async () => {
  await agent.destroy()
  for (const socket of connections) socket.destroy()
  server.close()
})

const ask = async (how: typeof answer) => {
  answer = how
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const { statusCode, headers, body } = await request(url, { method: "POST", body: "{}", dispatcher: agent })
  return { status: statusCode, final: headers["x-final"], retryAfter: headers["retry-after"], text: await body.text() }
}
const saying = (text: string) => (socket: Socket) => void socket.write(text)
const answered = (text: string, status = 200) => ({ status, final: "yes", retryAfter: undefined, text })

describe("interim responses", () => {
  it.each([
    ["100", CONTINUE],
    ["102", "HTTP/1.1 102 Processing\r\n\r\n"],
    ["103", HINTS],
    ["of another number", "HTTP/1.1 142 Whatever\r\n\r\n"],
    ["without a reason", "HTTP/1.1 100\r\n\r\n"],
    ["of HTTP/1.0", "HTTP/1.0 100 Continue\r\n\r\n"],
    ["many", CONTINUE.repeat(50) + HINTS.repeat(50)],
  ])("are skipped: %s", async (_, interim) => {
    expect(await ask(saying(interim + final("ok")))).toEqual(answered("ok"))
    expect(await ask(saying(interim + final("no", "503 Busy")))).toEqual(answered("no", 503))
  })

  it("are skipped in any division of their bytes, on a kept connection", async () => {
    const before = connections.length
    const bytewise = async (socket: Socket) => {
      for (const byte of CONTINUE + HINTS + final("ok")) {
        socket.write(byte)
        await setImmediate()
      }
    }
    for (let times = 0; times < 3; times++) expect(await ask((socket) => void bytewise(socket))).toEqual(answered("ok"))
    expect(connections.length - before).toBeLessThanOrEqual(1)
  })

  it("are only those before the final answer: its body is unchanged", async () => {
    const body = `${CONTINUE}${final("x")}`
    expect(await ask(saying(CONTINUE + final(body)))).toEqual(answered(body))
    // In a part of its own.
    const [head, rest] = [final(body).slice(0, -body.length), body]
    const inParts = (socket: Socket) => socket.write(head, () => socket.write(rest))
    expect(await ask(inParts)).toEqual(answered(body))
  })

  it("without end are not read forever", async () => {
    await expect(ask(saying(CONTINUE.repeat(1_000)))).rejects.toThrow("too many interim responses")
    await expect(ask(saying(`HTTP/1.1 103 Early Hints\r\nLink: ${"x".repeat(20_000)}`))).rejects.toThrow(
      "too many interim responses",
    )
    expect(await ask(saying(CONTINUE + final("ok")))).toEqual(answered("ok"))
  })

  it("end when the connection changes its protocol, or closes", async () => {
    await expect(ask(saying("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"))).rejects.toThrow(
      "changes the protocol",
    )
    await expect(ask((socket) => void socket.end(CONTINUE))).rejects.toThrow("other side closed")
  })
})
