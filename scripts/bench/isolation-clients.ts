/** Hostile clients as the benchmark sees them: what they are to do, and how they are started in a process of their own. */
import { type ChildProcess, fork } from "node:child_process"
import { join } from "node:path"

export interface Client {
  /** Requests, or beginnings of some, sent in turn. `FRESH` in one becomes a number that no other has. */
  readonly requests: ReadonlyArray<Buffer>
  readonly connections: number
  /** Requests a second, of all its connections together; absent: the next one as soon as the last is answered. */
  readonly perSecond?: number
  /**
   * `asks` reads the answer, and sends the next request on the same connection. `waits` has a connection for each request and
   * keeps it until the server closes it. `ignores` does so too, but reads nothing after the first bytes of the answer; when
   * all its connections are open, the oldest gives way.
   */
  readonly manner: "asks" | "waits" | "ignores"
}

export interface Orders {
  readonly port: number
  readonly clients: ReadonlyArray<Client>
}

export interface Tally {
  readonly sent: number
  /** Answers by status. */
  readonly answers: Readonly<Record<string, number>>
  readonly ms: number
}

/** A load that is under way. */
export interface Running {
  /** Ends it; returns what came of it. */
  readonly stop: () => Promise<Tally>
}

/** As long as the numbers that take its place. */
export const FRESH = "@@fresh-number@@"

interface Request {
  readonly method?: "GET" | "POST" | "PATCH" | "DELETE"
  readonly path: string
  readonly key?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** Of a body that is sent in part: as long as it says it is. */
  readonly length?: number
}

/** The bytes of a request. */
export const prepare = ({ method = "GET", path, key, headers = {}, body = "", length }: Request): Buffer => {
  const all = {
    host: "localhost",
    ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    ...(method === "GET"
      ? {}
      : { "content-type": "application/json", "content-length": length ?? Buffer.byteLength(body) }),
    ...headers,
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n${body}`)
}

const nextMessage = (child: ChildProcess): Promise<unknown> =>
  new Promise((resolve, reject) => {
    const ended = () => reject(new Error("The hostile clients ended."))
    child.once("exit", ended)
    child.once("message", (message) => {
      child.off("exit", ended)
      resolve(message)
    })
  })

/** Lets clients loose on the server at `origin`. */
export const startClients = async (origin: string, clients: ReadonlyArray<Client>): Promise<Running> => {
  const child = fork(join(import.meta.dirname, "isolation-hostile.ts"), {
    execArgv: ["--disable-warning=ExperimentalWarning"],
    serialization: "advanced",
  })
  const begun = nextMessage(child)
  child.send({ port: Number(new URL(origin).port), clients } satisfies Orders)
  await begun
  return {
    stop: async () => {
      const tally = nextMessage(child)
      child.send("stop")
      return (await tally) as Tally
    },
  }
}
