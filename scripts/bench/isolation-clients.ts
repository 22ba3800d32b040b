/** Starts hostile clients in a separate process, and describes their work. */
import { type ChildProcess, fork } from "node:child_process"
import { join } from "node:path"

export interface Client {
  /** Complete or partial requests, sent in turn. `FRESH` in one becomes a unique number. */
  readonly requests: ReadonlyArray<Buffer>
  readonly connections: number
  /** Requests a second, over all its connections; absent: each request follows the answer to the last one. */
  readonly perSecond?: number
  /**
   * `asks` reads the answer, and sends the next request on the same connection. `waits` opens a connection for each request and keeps it
   * until the server closes it. `ignores` does the same, but reads nothing after the first bytes of the answer; when all its connections
   * are open, it closes the oldest.
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

/** A running load. */
export interface Running {
  /** Stops it; returns its results. */
  readonly stop: () => Promise<Tally>
}

/** A placeholder with the length of the numbers that replace it. */
export const FRESH = "@@fresh-number@@"

interface Request {
  readonly method?: "GET" | "POST" | "PATCH" | "DELETE"
  readonly path: string
  readonly key?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** The declared length of a body that is sent only in part. */
  readonly length?: number
}

/** Builds the bytes of a request. */
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

/** Starts clients against the server at `origin`. */
export const startClients = async (origin: string, clients: ReadonlyArray<Client>): Promise<Running> => {
  const child = fork(join(import.meta.dirname, "isolation-hostile.ts"), {
    execArgv: ["--disable-warning=ExperimentalWarning"],
    serialization: "advanced",
  })
  const started = nextMessage(child)
  child.send({ port: Number(new URL(origin).port), clients } satisfies Orders)
  await started
  return {
    stop: async () => {
      const tally = nextMessage(child)
      child.send("stop")
      return (await tally) as Tally
    },
  }
}
