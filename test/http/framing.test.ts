/** Tests heads of requests as raw bytes: the host (A12), framing of bodies (I2), later requests on the connection. */
import { describe, expect, it } from "vitest"
import { useInstance } from "../support/instance.ts"
import { type RawAnswer, sendRaw } from "../support/sockets.ts"

const { api, server, keys } = useInstance()

const BODY = '{"name":"Framed"}'
const CHUNKED = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`
const LENGTH = `Content-Length: ${BODY.length}`
const customers = async () => (await api.all("/customers")).length

interface Request {
  readonly target?: string
  readonly version?: string
  readonly headers?: ReadonlyArray<string>
  readonly body?: string
}

/** The bytes of a POST of a customer. */
const post = ({
  target = "/sandbox/v1/customers",
  version = "1.1",
  headers = ["Host: localhost", LENGTH],
  body = BODY,
}: Request = {}): string =>
  [
    `POST ${target} HTTP/${version}`,
    `Authorization: Bearer ${keys().sk_test}`,
    "Content-Type: application/json",
    ...headers,
    "",
    body,
  ].join("\r\n")

const send = (bytes: string | Buffer) => sendRaw(server().origin, bytes)

const CLOSE = "Connection: close"

/** An answer in the envelope, by its status and code. Each has a request ID in the header and in the body. */
const seen = ({ status, headers, body }: RawAnswer) => {
  const { success, data, error } = JSON.parse(body)
  const [, requestId] = /^x-request-id: (req_\w+)$/im.exec(headers) ?? []
  expect(requestId).toBeDefined()
  if (success) return [status, data.object]
  expect(error).toMatchObject({ request_id: requestId, doc_url: `${server().origin}/docs/errors#${error.code}` })
  return [status, error.code]
}

/** The answer to one request. Expects that a refusal had no effect and that the connection is closed after it. */
const refused = async (request: Request) => {
  const before = await customers()
  const answers = await send(post(request))
  expect(await customers()).toBe(before)
  expect(answers.map(({ headers }) => /^connection: close$/im.test(headers))).toEqual([true])
  return seen(answers[0]!)
}

describe("Host (A12)", () => {
  it.each([
    ["none", []],
    ["two", ["Host: localhost", "Host: localhost"]],
    ["two that differ", ["Host: localhost", "host: elsewhere.example"]],
    ["an empty one", ["Host:"]],
    ["one with blanks and a path", ["Host: a b/c@"]],
    ["one with a user", ["Host: ada@localhost"]],
    ["two in one", ["Host: localhost, elsewhere.example"]],
    ["an address", ["Host: http://localhost"]],
    ["an invalid port", ["Host: localhost:http"]],
    ["a port that is too large", ["Host: localhost:65536"]],
    ["half an IPv6 address", ["Host: [::1"]],
    ["no IPv6 address in brackets", ["Host: [1::2::3]"]],
    ["an invalid escape", ["Host: a%zz"]],
    ["no ASCII", ["Host: l\u00f6calhost"]],
  ])("that is %s is refused", async (_, hosts) => {
    expect(await refused({ headers: [...hosts, LENGTH] })).toEqual([400, "host_invalid"])
  })

  it.each(["localhost", "LOCALHOST:3000", "127.0.0.1:80", "[::1]:8080", "shop_1.example.", "xn--lcalhost-n4a.example"])(
    "%s is accepted",
    async (host) => {
      const answers = await send(post({ headers: [`Host: ${host}`, CLOSE, LENGTH] }))
      expect(answers.map(seen)).toEqual([[201, "customer"]])
    },
  )

  it("is optional in HTTP/1.0 only, and must be valid there", async () => {
    expect((await send(post({ version: "1.0", headers: [LENGTH] }))).map(seen)).toEqual([[201, "customer"]])
    for (const hosts of [["Host: a b"], ["Host: a", "Host: a"]])
      expect(await refused({ version: "1.0", headers: [...hosts, LENGTH] })).toEqual([400, "host_invalid"])
  })

  it("is also required beside an absolute URL, which takes precedence", async () => {
    const target = "http://elsewhere.example/sandbox/v1/customers"
    const answers = await send(post({ target, headers: ["Host: localhost", CLOSE, LENGTH] }))
    expect(answers.map(seen)).toEqual([[201, "customer"]])
    expect(await refused({ target, headers: [LENGTH] })).toEqual([400, "host_invalid"])
  })
})

describe("the framing of a body (I2)", () => {
  const host = "Host: localhost"

  it.each([
    ["gzip, chunked", CHUNKED],
    ["chunked, chunked", CHUNKED],
    ["xchunked", CHUNKED],
    ["gzip", BODY],
    ["identity", BODY],
    ["chunked, gzip", BODY],
    ["", BODY],
  ])("refuses Transfer-Encoding: %s", async (encoding, body) => {
    expect(await refused({ headers: [host, `Transfer-Encoding: ${encoding}`], body })).toEqual([
      501,
      "transfer_encoding_unsupported",
    ])
  })

  it.each([
    [["Transfer-Encoding: chunked", "Transfer-Encoding: gzip"], 501, "transfer_encoding_unsupported"],
    [["Transfer-Encoding: identity", LENGTH], 501, "transfer_encoding_unsupported"],
    [[LENGTH, "Transfer-Encoding: gzip"], 501, "transfer_encoding_unsupported"],
    [["Transfer-Encoding: chunked", LENGTH], 400, "request_malformed"],
    [[LENGTH, "Transfer-Encoding: chunked"], 400, "request_malformed"],
    [[LENGTH, LENGTH], 400, "request_malformed"],
    [[LENGTH, "Content-Length: 3"], 400, "request_malformed"],
    [[`Content-Length: ${BODY.length}, ${BODY.length}`], 400, "request_malformed"],
    [[`Content-Length: +${BODY.length}`], 400, "request_malformed"],
    [[`Content-Length : ${BODY.length}`], 400, "request_malformed"],
    [["X-Folded: a", " b", LENGTH], 400, "request_malformed"],
    [["Transfer-Encoding:", " chunked"], 400, "request_malformed"],
  ])("refuses %j", async (headers, status, code) => {
    const body = headers.some((header) => /chunked/.test(header)) ? CHUNKED : BODY
    expect(await refused({ headers: [host, ...headers], body })).toEqual([status, code])
  })

  it("accepts chunks in HTTP/1.1 only", async () => {
    for (const encoding of ["chunked", "Chunked"]) {
      const headers = [host, CLOSE, `Transfer-Encoding: ${encoding}`]
      expect((await send(post({ headers, body: CHUNKED }))).map(seen)).toEqual([[201, "customer"]])
    }
    const headers = ["Connection: keep-alive", "Transfer-Encoding: chunked"]
    expect(await refused({ version: "1.0", headers, body: CHUNKED })).toEqual([400, "request_malformed"])
  })

  it("is refused if a chunk is malformed", async () => {
    const headers = [host, "Transfer-Encoding: chunked"]
    expect(await refused({ headers, body: `zz\r\n${BODY}\r\n0\r\n\r\n` })).toEqual([400, "request_malformed"])
  })
})

describe("pipelined requests", () => {
  const next = (headers: ReadonlyArray<string>) => post({ headers: ["Host: localhost", ...headers, LENGTH] })

  it("are each answered, in order", async () => {
    const before = await customers()
    const answers = await send(next([]) + next([]) + next([CLOSE]))
    expect(answers.map(seen)).toEqual(Array.from({ length: 3 }, () => [201, "customer"]))
    expect(await customers()).toBe(before + 3)
  })

  it.each([
    ["without Host", () => post({ headers: [LENGTH] }), [400, "host_invalid"]],
    [
      "whose coding is not understood",
      () => post({ headers: ["Host: localhost", "Transfer-Encoding: gzip, chunked"], body: CHUNKED }),
      [501, "transfer_encoding_unsupported"],
    ],
    ["that is invalid", () => "HELLO\r\n\r\n", [400, "request_malformed"]],
  ])("end with one %s: earlier requests are done and answered first, later ones are not", async (_, wrong, refusal) => {
    const before = await customers()
    const answers = await send(next([]) + wrong() + next([CLOSE]))
    expect(answers.map(seen)).toEqual([[201, "customer"], refusal])
    expect(await customers()).toBe(before + 1)
  })
})
