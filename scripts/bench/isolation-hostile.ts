/**
 * Hostile clients, in a process of their own so that whoever measures is not held up by them, and as cheap as they can be,
 * since they work on the same cores as the server: prepared bytes on bare sockets, and of an answer only its status and its
 * length are looked at. Told what to do by the first message; the second ends it, and is answered with what came of it.
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

/** What sends the client's requests, one after the other. */
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

/** Lets as many go as the client sends in a second; what nobody was there to send is not made up for. */
const createPace = ({ perSecond }: Client): ((go: () => void) => void) => {
  if (perSecond === undefined) return setImmediate
  const waiting: Array<() => void> = []
  const startedAt = performance.now()
  let gone = 0
  setInterval(() => {
    const due = Math.floor(((performance.now() - startedAt) / 1000) * perSecond)
    for (; gone < due && waiting.length > 0; gone++) waiting.shift()!()
    gone = due
  }, TICK_MS)
  return (go) => waiting.push(go)
}

/** Calls `answered` with the status of each answer once it has come whole; there is one at a time. */
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
  // It closes then, and that is looked at.
  socket.on("error", () => undefined)
  return socket
}

const ask = (port: number, client: Client): void => {
  const pace = createPace(client)
  const send = createSend(client)
  const begin = () => {
    const socket = open(port)
    const next = () => pace(() => (socket.destroyed ? undefined : send(socket)))
    readAnswers(socket, (status) => {
      count(status)
      next()
    })
    socket.once("connect", next)
    socket.once("close", () => setTimeout(begin, REOPEN_AFTER_MS))
  }
  for (let n = 0; n < client.connections; n++) begin()
}

const wait = (port: number, client: Client): void => {
  const pace = createPace(client)
  const send = createSend(client)
  const begin = () =>
    pace(() => {
      const socket = open(port)
      readAnswers(socket, count)
      socket.once("connect", () => send(socket))
      socket.once("close", () => setTimeout(begin, REOPEN_AFTER_MS))
    })
  for (let n = 0; n < client.connections; n++) begin()
}

const ignore = (port: number, client: Client): void => {
  const pace = createPace(client)
  const send = createSend(client)
  const sockets: Array<Socket> = []
  const begin = () => {
    if (sockets.length >= client.connections) sockets.shift()!.destroy()
    const socket = open(port)
    sockets.push(socket)
    socket.once("connect", () => send(socket))
    socket.once("data", (chunk) => {
      count(chunk.toString("latin1", 9, 12))
      socket.pause()
    })
    pace(begin)
  }
  pace(begin)
}

const MANNERS = { asks: ask, waits: wait, ignores: ignore } as const

process.once("message", ({ port, clients }: Orders) => {
  const startedAt = performance.now()
  for (const client of clients) MANNERS[client.manner](port, client)
  process.once("message", () => {
    const tally: Tally = { sent, answers, ms: performance.now() - startedAt }
    process.send!(tally, () => process.exit(0))
  })
  process.send!("begun")
})
// Whoever started it is gone.
process.once("disconnect", () => process.exit(0))
