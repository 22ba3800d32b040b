/**
 * Hostile clients run in a separate process, so that they do not delay the measuring process. They use little CPU, since they share the
 * server's cores: prepared bytes on bare sockets, and only the status and length of an answer are read. The first message has their
 * work; the second one stops them, and they answer it with the results.
 */
import { connect, type Socket } from "node:net"
import { type Client, FRESH, type Orders, type Tally } from "./isolation-clients.ts"

const REOPEN_AFTER_MS = 50
const TICK_MS = 10

let sent = 0
const answers: Record<string, number> = {}

const count = (status: string): void => {
  answers[status] = (answers[status] ?? 0) + 1
}

/** Creates the function that sends the client's requests, one after the other. */
const createSend = ({ requests }: Client): ((socket: Socket) => void) => {
  const prepared = requests.map((bytes) => ({ bytes, freshAt: bytes.indexOf(FRESH) }))
  let turn = 0
  return (socket) => {
    const { bytes, freshAt } = prepared[turn++ % prepared.length]!
    sent++
    if (freshAt === -1) {
      if (bytes.length > 0) socket.write(bytes)
      return
    }
    const own = Buffer.from(bytes)
    own.write(String(sent).padStart(FRESH.length, "0"), freshAt)
    socket.write(own)
  }
}

/** Limits requests to the client's rate; requests that had no free connection in time are skipped. */
const createPace = ({ perSecond }: Client): ((start: () => void) => void) => {
  if (perSecond === undefined) return setImmediate
  const waiting: Array<() => void> = []
  const startedAt = performance.now()
  let released = 0
  setInterval(() => {
    const due = Math.floor(((performance.now() - startedAt) / 1000) * perSecond)
    for (; released < due && waiting.length > 0; released++) waiting.shift()!()
    released = due
  }, TICK_MS)
  return (start) => waiting.push(start)
}

/** Calls `answered` with the status of each complete answer; there is one at a time. */
const readAnswers = (socket: Socket, answered: (status: string) => void): void => {
  let head = ""
  let left: number | undefined
  socket.on("data", (chunk) => {
    if (left === undefined) {
      head += chunk.toString("latin1")
      const end = head.indexOf("\r\n\r\n")
      if (end === -1) return
      left = end + 4 + Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0) - head.length
    } else left -= chunk.length
    if (left > 0) return
    const status = head.slice(9, 12)
    head = ""
    left = undefined
    answered(status)
  })
}

const open = (port: number): Socket => {
  const socket = connect(port, "127.0.0.1")
  // After an error the socket closes, and that is handled.
  socket.on("error", () => undefined)
  return socket
}

const ask = (port: number, client: Client): void => {
  const pace = createPace(client)
  const send = createSend(client)
  const openOne = () => {
    const socket = open(port)
    const next = () => pace(() => (socket.destroyed ? undefined : send(socket)))
    readAnswers(socket, (status) => {
      count(status)
      next()
    })
    socket.once("connect", next)
    socket.once("close", () => setTimeout(openOne, REOPEN_AFTER_MS))
  }
  for (let n = 0; n < client.connections; n++) openOne()
}

const wait = (port: number, client: Client): void => {
  const pace = createPace(client)
  const send = createSend(client)
  const openOne = () =>
    pace(() => {
      const socket = open(port)
      readAnswers(socket, count)
      socket.once("connect", () => send(socket))
      socket.once("close", () => setTimeout(openOne, REOPEN_AFTER_MS))
    })
  for (let n = 0; n < client.connections; n++) openOne()
}

const ignore = (port: number, client: Client): void => {
  const pace = createPace(client)
  const send = createSend(client)
  const sockets: Array<Socket> = []
  const openOne = () => {
    if (sockets.length >= client.connections) sockets.shift()!.destroy()
    const socket = open(port)
    sockets.push(socket)
    socket.once("connect", () => send(socket))
    socket.once("data", (chunk) => {
      count(chunk.toString("latin1", 9, 12))
      socket.pause()
    })
    pace(openOne)
  }
  pace(openOne)
}

const MANNERS = { asks: ask, waits: wait, ignores: ignore } as const

process.once("message", ({ port, clients }: Orders) => {
  const startedAt = performance.now()
  for (const client of clients) MANNERS[client.manner](port, client)
  process.once("message", () => {
    const tally: Tally = { sent, answers, ms: performance.now() - startedAt }
    process.send!(tally, () => process.exit(0))
  })
  process.send!("started")
})
// The parent process has ended.
process.once("disconnect", () => process.exit(0))
