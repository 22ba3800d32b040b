/** Tests the parts of pages that follow what happens (src/dashboard/LiveParts.ts), and how their streams end. */
import { Readable } from "node:stream"
import { Effect, Layer, ManagedRuntime, Stream } from "effect"
import { afterAll, describe, expect, it } from "vitest"
import { LiveParts, livePart } from "../../src/dashboard/LiveParts.ts"
import { poolLayer } from "../../src/db/database.ts"
import { Origin } from "../../src/http/Origin.ts"
import type { PublicRequest } from "../../src/http/publicRoutes.ts"
import { html } from "../../src/pages/html.ts"
import { useInstance } from "../support/instance.ts"
import { type Member, signedIn } from "../support/member.ts"
import { eventually } from "../support/story.ts"

const { database, server, accountId } = useInstance()

const member = (role: Parameters<typeof signedIn>[3] = "owner") =>
  signedIn(database, server().origin, accountId(), role)

const layer = Layer.suspend(() =>
  Layer.mergeAll(poolLayer(database.url(), 4), Origin.layer(server().origin), LiveParts.layer),
)
const runtime = ManagedRuntime.make(layer)
afterAll(() => runtime.dispose())

let renderings = 0
let shown = "first"
const part = livePart("/dashboard/:environment/part", "operate", () =>
  Effect.sync(() => {
    renderings++
    return html`<p>${shown}</p>`
  }),
)

const requestOf = ({ cookie }: Pick<Member, "cookie">, environment = "live"): PublicRequest => ({
  parts: [environment],
  search: new URLSearchParams(),
  headers: { cookie: `session=${cookie}`, accept: "text/event-stream" },
  body: Effect.succeed(Buffer.from("")),
  upload: Readable.from([]),
  requestId: "req_1",
  address: "127.0.0.1",
  enter: () => Effect.void,
})

/** Opens the part. `events` grows with what arrives; `ended` resolves when the stream ends. */
const open = async (one: Pick<Member, "cookie">, environment?: string) => {
  const answer = await runtime.runPromise(part.methods.GET!(requestOf(one, environment)))
  const events: Array<string> = []
  if (answer.stream === undefined) return { status: answer.status, events, ended: Promise.resolve() }
  const ended = runtime.runPromise(
    Stream.runForEach(answer.stream, (bytes) => Effect.sync(() => events.push(Buffer.from(bytes).toString()))),
  )
  return { status: answer.status, events, ended }
}

const arrived = (events: ReadonlyArray<string>, text: string) =>
  eventually(async () => (events.some((event) => event.includes(text)) ? true : undefined))

describe("a part that is followed", () => {
  it("is sent when it changes, is rendered once for all pages, and ends for a removed member at once", async () => {
    const [owner, support] = [await member(), await member("support")]
    const pages = await Promise.all([open(owner), open(owner), open(support)])
    for (const { events } of pages) await arrived(events, "data: <p>first</p>\n\n")
    expect(renderings).toBe(1)
    await owner.post(`/dashboard/team/${support.id}/remove`)
    shown = "second"
    await pages[2]!.ended
    expect(pages[2]!.events.join()).not.toContain("second")
    for (const { events } of pages.slice(0, 2)) await arrived(events, "data: <p>second</p>\n\n")
    // A change of role, and the end of the session.
    await database.run((sql) => sql`UPDATE member SET role = 'finance' WHERE id = ${owner.id}`)
    await Promise.all(pages.map(({ ended }) => ended))
    const { open: counter } = await runtime.runPromise(LiveParts)
    expect(counter.of(accountId())).toBe(0)
  })

  it("is nothing without a session, and refused without the right, in this environment", async () => {
    expect((await open({ cookie: "x" })).status).toBe(204)
    const developer = await member("developer")
    const { status } = await open(developer, "live")
    expect(status).toBe(403)
  })

  it("is followed by at most 50 pages of an account: further ones are not followed", async () => {
    const owner = await member()
    const pages = []
    for (let n = 0; n < 50; n++) {
      const one = await open(owner)
      await eventually(async () => (one.events.length > 0 ? true : undefined))
      pages.push(one)
    }
    expect((await open(owner)).status).toBe(204)
    await owner.post("/dashboard/sign-out")
    await Promise.all(pages.map(({ ended }) => ended))
  })

  it("ends when the server stops", async () => {
    const { ended, events } = await open(await member())
    await arrived(events, "second")
    await runtime.runPromise(Effect.flatMap(LiveParts, ({ stop }) => stop))
    await ended
  })
})
