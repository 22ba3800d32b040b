/** Tests the bodies of requests as they arrive. */
import { once } from "node:events"
import type { IncomingMessage } from "node:http"
import { PassThrough } from "node:stream"
import { Effect } from "effect"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { problem } from "../../src/base/problem.ts"
import { readBytes } from "../../src/http/body.ts"
import { parseBody } from "../../src/http/parseBody.ts"

const LIMIT = 256 * 1024

/** A body in parts of one size, and the memory that it reports. */
const reading = (bytes: number, part: number, headers: Readonly<Record<string, string>> = {}) => {
  const stream = new PassThrough({ highWaterMark: 2 * LIMIT })
  const request = Object.assign(stream, { headers }) as unknown as IncomingMessage
  const reported: Array<number> = []
  const read = Effect.runPromise(
    Effect.result(
      readBytes(request, (more) => {
        reported.push(more)
        return undefined
      }),
    ),
  )
  const sent = Buffer.alloc(bytes, "abcdefghij")
  for (let at = 0; at < bytes; at += part) stream.write(sent.subarray(at, at + part))
  stream.end()
  return { sent, read, reported }
}

describe("a body", () => {
  it("in single bytes takes at most twice its size in memory, and reports its size in a few steps", async () => {
    const { sent, read, reported } = reading(50_000, 1)
    expect(await read).toMatchObject({ _tag: "Success", success: sent })
    expect(reported.length).toBeLessThan(10)
    expect(reported.reduce((sum, more) => sum + more, 0)).toBeLessThanOrEqual(2 * 50_000)
  })

  it("is passed on unchanged if it arrives whole", async () => {
    const { sent, read, reported } = reading(1_234, 1_234, { "content-length": "1234" })
    expect(await read).toMatchObject({ _tag: "Success", success: sent })
    expect(reported).toEqual([1_234])
  })

  it.each([
    [LIMIT, "Success"],
    [LIMIT + 1, "Failure"],
  ])("of %i bytes in parts ends in %s", async (bytes, end) => {
    const { read } = reading(bytes, 1_000)
    expect((await read)._tag).toBe(end)
  })

  it("is refused before it is read whole if there is no room for more", async () => {
    const stream = Object.assign(new PassThrough(), { headers: {} })
    const full = problem("too_many_in_flight", "Full.")
    const read = Effect.runPromise(Effect.flip(readBytes(stream as unknown as IncomingMessage, () => full)))
    stream.write("{")
    expect((await read).code).toBe("too_many_in_flight")
    expect(stream.listenerCount("data")).toBe(0)
  })

  it.each(["before it is read", "while it is read"])("of a caller that hangs up %s is dropped", async (when) => {
    const stream = Object.assign(new PassThrough(), { headers: { "content-length": "9" } })
    stream.write("{")
    const hangUp = async () => {
      stream.destroy()
      await once(stream, "close")
    }
    if (when === "before it is read") await hangUp()
    const read = Effect.runPromise(Effect.flip(readBytes(stream as unknown as IncomingMessage)))
    if (when === "while it is read") await hangUp()
    expect((await read).code).toBe("request_timeout")
  })
})

describe("the keys of an object", () => {
  const text = fc.string({ unit: fc.constantFrom("a", '"', "\\", ":", "{", "}", "[", "]", " ", "é") })
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      text,
      fc.integer(),
      fc.constant(null),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(text, tie("value"), { maxKeys: 3 }),
    ),
  }))
  const read = (body: string) => Effect.runSync(Effect.result(parseBody(body)))

  it("occur once each, with any name and any value", () => {
    fc.assert(
      fc.property(fc.dictionary(text, value), fc.nat(2), (object, indent) => {
        expect(read(JSON.stringify(object, null, indent))).toMatchObject({ _tag: "Success", success: object })
      }),
    )
  })

  it("are refused as duplicates in any spelling", () => {
    fc.assert(
      fc.property(text, value, value, (key, one, other) => {
        const escaped = [...key].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")
        const inner = `{${JSON.stringify(key)}: ${JSON.stringify(one)}, "${escaped}" :${JSON.stringify(other)}}`
        const refused = read(`{"metadata": [1, ${inner}], "after": "}"}`)
        expect(refused).toMatchObject({ _tag: "Failure", failure: { code: "json_invalid" } })
        expect(JSON.stringify(refused)).toContain("twice")
      }),
    )
  })
})
