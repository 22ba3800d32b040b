/** Tests the port: each incoming request gets a response, whenever it arrives. */
import { once } from "node:events"
import { connect } from "node:net"
import { Effect, Redacted, type Scope } from "effect"
import { HttpServerResponse } from "effect/http"
import { describe, expect, it } from "vitest"
import type { Config } from "../../src/config/Config.ts"
import { readConfig } from "../../src/config/readConfig.ts"
import { CONNECTION_LIMITS } from "../../src/http/connections.ts"
import { listen } from "../../src/http/listener.ts"
import { CERTIFICATE, CERTIFICATE_KEY } from "../support/certificate.ts"
import { closed } from "../support/sockets.ts"

const plain = Effect.runSync(readConfig({ PORT: "0" }, { development: true }))
const secure: Config = {
  ...plain,
  transport: { ...plain.transport, tls: { cert: CERTIFICATE, key: Redacted.make(CERTIFICATE_KEY) } },
}

/** Sends `text` on its own connection. `answer` is the text received until it closes. */
const say = async (origin: string, text: string) => {
  const socket = connect(Number(new URL(origin).port), "127.0.0.1")
  let answer = ""
  socket.on("data", (chunk) => {
    answer += chunk
  })
  await once(socket, "connect")
  socket.write(text)
  return { answer: closed(socket).then(() => answer) }
}

const GET = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

describe("a server that starts to listen", () => {
  const on = <A>(
    config: Config,
    work: (listener: Effect.Success<ReturnType<typeof listen>>) => Effect.Effect<A, never, Scope.Scope>,
    limits = CONNECTION_LIMITS,
  ) => Effect.runPromise(Effect.scoped(Effect.flatMap(listen(config, limits), work)))

  it("answers requests that came before it was ready", async () => {
    const answers = await on(plain, ({ origin, serve }) =>
      Effect.gen(function* () {
        const early = yield* Effect.promise(() => say(origin, GET))
        // Node refuses this one without our code, and reads connections in turn: the one before has been read.
        const broken = yield* Effect.promise(() => say(origin, "HELLO\r\n\r\n"))
        expect(yield* Effect.promise(() => broken.answer)).toContain("request_malformed")
        yield* serve(Effect.sync(() => HttpServerResponse.text("served")))
        const late = yield* Effect.promise(() => say(origin, GET))
        return yield* Effect.promise(() => Promise.all([early.answer, late.answer]))
      }),
    )
    expect(answers).toEqual([
      expect.stringMatching(/200 OK[\s\S]*served$/),
      expect.stringMatching(/200 OK[\s\S]*served$/),
    ])
  })

  it("closes a connection that sends nothing at the start of TLS", async () => {
    const socket = await on(
      secure,
      ({ origin }) =>
        Effect.promise(async () => {
          const silent = connect(Number(new URL(origin).port), "127.0.0.1")
          await closed(silent)
          return silent
        }),
      { ...CONNECTION_LIMITS, handshakeMs: 50 },
    )
    expect(socket.bytesRead).toBe(0)
  })
})
