/** Tests connections: none uses more than its share, and none delays the end of a process (docs/operating.md). */
import { once } from "node:events"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import { createServer as createTlsServer } from "node:https"
import { type AddressInfo, connect, type Socket } from "node:net"
import { connect as connectTls } from "node:tls"
import { afterEach, describe, expect, it } from "vitest"
import { CONNECTION_LIMITS, type ConnectionLimits, limitConnections } from "../../src/http/connections.ts"
import { CERTIFICATE, CERTIFICATE_KEY } from "../support/certificate.ts"
import { closed } from "../support/sockets.ts"

/** Longer than any test: a connection with this limit ends for another reason. */
const NEVER_MS = 600_000
/** More than the kernel buffers of a connection, on both sides. */
const LARGE = Buffer.alloc(32 * 1024 * 1024, "x")

const HEAD = "Host: localhost\r\n"

interface Arrived {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

const portOf = (server: Server): number => (server.address() as AddressInfo).port

const opened: Array<Server | Socket> = []

afterEach(() => {
  for (const one of opened.splice(0)) {
    if ("closeAllConnections" in one) {
      one.close()
      one.closeAllConnections()
    } else one.destroy()
  }
})

describe.each(["http", "https"])("a server of %s", (scheme) => {
  /** A server whose responses the test triggers. */
  const start = async (
    limits: Partial<ConnectionLimits>,
    callerOf: (socket: Socket) => string | undefined = () => "one",
  ) => {
    const arrivals: Array<Arrived> = []
    const waiting: Array<(arrived: Arrived) => void> = []
    const handle = (request: IncomingMessage, response: ServerResponse) => {
      const next = waiting.shift()
      if (next === undefined) arrivals.push({ request, response })
      else next({ request, response })
    }
    const server =
      scheme === "http" ? createServer(handle) : createTlsServer({ cert: CERTIFICATE, key: CERTIFICATE_KEY }, handle)
    const { stop } = limitConnections(server, callerOf, { ...CONNECTION_LIMITS, ...limits })
    server.listen(0, "127.0.0.1")
    opened.push(server)
    await once(server, "listening")
    const port = portOf(server)
    const accepted: Array<Socket> = []
    server.on("connection", (socket: Socket) => accepted.push(socket))

    /** The next request, after its head has arrived. */
    const arrival = (): Promise<Arrived> =>
      new Promise((resolve) => {
        const ready = arrivals.shift()
        if (ready === undefined) waiting.push(resolve)
        else resolve(ready)
      })
    /** A connection without any bytes sent: with TLS, not even a client hello. */
    const dial = async (): Promise<Socket> => {
      const socket = connect(port, "127.0.0.1")
      opened.push(socket)
      socket.on("error", () => {})
      await Promise.all([once(socket, "connect"), once(server, "connection")])
      return socket
    }
    /** A connection that is ready for requests. */
    const open = async (): Promise<Socket> => {
      if (scheme === "http") return dial()
      const secure = once(server, "secureConnection")
      const socket = connectTls({ port, host: "127.0.0.1", ca: CERTIFICATE })
      opened.push(socket)
      socket.on("error", () => {})
      await Promise.all([once(socket, "secureConnect"), secure])
      return socket
    }
    return { server, stop, arrival, accepted, dial, open }
  }

  /** All bytes until the other side closes. */
  const read = async (socket: Socket): Promise<string> => {
    let text = ""
    for await (const chunk of socket) text += chunk
    return text
  }

  /** The text of one response without a body. */
  const readHead = async (socket: Socket): Promise<string> => {
    let text = ""
    while (!text.endsWith("\r\n\r\n")) text += await once(socket, "data").then(([chunk]) => String(chunk))
    return text
  }

  it("that stops closes silent and idle connections immediately, and answers complete requests", async () => {
    const { stop, arrival, dial, open } = await start({ halfSentMs: NEVER_MS })
    const [silent, dialled, idle, headless, bodiless, working] = [
      await open(),
      await dial(),
      await open(),
      await open(),
      await open(),
      await open(),
    ]
    idle.write(`GET / HTTP/1.1\r\n${HEAD}\r\n`)
    ;(await arrival()).response.writeHead(204).end()
    expect(await readHead(idle)).toContain("Connection: keep-alive")
    bodiless.write(`POST / HTTP/1.1\r\n${HEAD}Content-Length: 2\r\n\r\n1`)
    const half = await arrival()
    // Only a server that got the start of the head can see the request.
    headless.write("GET / HTTP/1.1\r\nHost: ")
    working.write(`GET /work HTTP/1.1\r\n${HEAD}\r\n`)
    const work = await arrival()

    const stopped = stop()
    await Promise.all([silent, dialled, idle].map(closed))
    work.response.writeHead(204).end()
    expect(await read(working)).toMatch(/^HTTP\/1.1 204 [\s\S]*Connection: close\r\n/i)
    headless.write("localhost\r\n\r\n")
    const late = await arrival()
    late.response.writeHead(204).end()
    expect(await read(headless)).toMatch(/Connection: close\r\n/i)
    bodiless.write("2")
    await once(half.request.resume(), "end")
    half.response.writeHead(204).end()
    expect(await read(bodiless)).toMatch(/Connection: close\r\n/i)
    await stopped
  })

  it("that stops closes half-sent requests after a while, and finishes active ones", async () => {
    const { stop, arrival, open } = await start({ halfSentMs: 50 })
    const [headless, bodiless, working] = [await open(), await open(), await open()]
    headless.write("GET / HTTP/1.1\r\n")
    bodiless.write(`POST / HTTP/1.1\r\n${HEAD}Content-Length: 2\r\n\r\n1`)
    await arrival()
    working.write(`GET /work HTTP/1.1\r\n${HEAD}\r\n`)
    const work = await arrival()
    const stopped = stop()
    await Promise.all([headless, bodiless].map(closed))
    work.response.writeHead(204).end()
    expect(await read(working)).toMatch(/^HTTP\/1.1 204 /)
    await stopped
  })

  it("that stops lets the client read a response to its end", async () => {
    const { stop, arrival, open } = await start({ halfSentMs: NEVER_MS })
    const reader = await open()
    reader.write(`GET / HTTP/1.1\r\n${HEAD}\r\n`)
    const { response } = await arrival()
    response.end(LARGE)
    expect(response.headersSent).toBe(true)
    const stopped = stop()
    let bytes = 0
    for await (const chunk of reader) bytes += chunk.length
    expect(bytes).toBeGreaterThan(LARGE.length)
    await stopped
  })

  it.each([
    { readerIdleMs: 50, readerMs: NEVER_MS },
    { readerIdleMs: NEVER_MS, readerMs: 50 },
  ])("closes the connection of a client that does not read: %j", async (limits) => {
    const { arrival, open } = await start(limits)
    const reader = (await open()).pause()
    reader.write(`GET / HTTP/1.1\r\n${HEAD}\r\n`)
    const { response } = await arrival()
    response.end(LARGE)
    await once(response, "close")
    let bytes = 0
    reader.on("data", (chunk) => {
      bytes += chunk.length
    })
    await closed(reader)
    expect(bytes).toBeLessThan(LARGE.length)
  })

  it("keeps the connection of a client that reads slowly", async () => {
    const { server, arrival, open } = await start({ readerIdleMs: NEVER_MS, readerMs: NEVER_MS })
    const reader = (await open()).pause()
    reader.write(`GET / HTTP/1.1\r\n${HEAD}\r\n`.repeat(2))
    const [first, second] = [await arrival(), await arrival()]
    const { socket } = first.request
    first.response.end(LARGE)
    expect(socket.timeout).toBe(NEVER_MS)
    const whole = new Promise<void>((resolve) => {
      let left = LARGE.length
      reader.on("data", (chunk) => {
        left -= chunk.length
        if (left < 0) resolve()
      })
    })
    reader.resume()
    await Promise.all([whole, once(first.response, "close")])
    // An active request has no limit here. After it, the connection is kept for the usual time.
    expect(socket.timeout).toBe(0)
    second.response.writeHead(204).end()
    await once(second.response, "close")
    expect(socket.timeout).toBeGreaterThanOrEqual(server.keepAliveTimeout)
    expect(socket.timeout).toBeLessThan(NEVER_MS)
    expect(socket.destroyed).toBe(false)
  })

  it("limits connections for each caller, but not for a proxy", async () => {
    let caller: string | undefined = "one"
    const { arrival, accepted, dial, open } = await start({ connectionsOfCaller: 2 }, () => caller)
    const expectServed = async (socket: Socket) => {
      socket.write(`GET / HTTP/1.1\r\n${HEAD}\r\n`)
      ;(await arrival()).response.writeHead(204).end()
      expect(await readHead(socket)).toContain("204")
    }
    const first = await open()
    await expectServed(await open())
    await closed(await dial())
    caller = "another"
    await expectServed(await open())
    caller = undefined
    for (const proxied of [await open(), await open(), await open()]) await expectServed(proxied)
    caller = "one"
    await closed(await dial())
    const gone = once(accepted[0]!, "close")
    first.destroy()
    await gone
    await expectServed(await open())
  })

  it("limits all connections together", async () => {
    const { dial } = await start({ connections: 2 })
    await dial()
    await dial()
    const third = connect(portOf(opened[0] as Server), "127.0.0.1")
    opened.push(third)
    third.on("error", () => {})
    await closed(third)
  })
})
