/**
 * LiveParts keeps parts of open pages up to date by server-sent events. A part is rendered again every few seconds and sent if it has changed.
 * All open pages that show the same part share one rendering. A stream ends with its session, and when the server stops.
 */
import { Context, Deferred, Effect, Layer, Option, Stream } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Problem } from "../base/problem.ts"
import { MINUTE_MS, SECOND_MS } from "../base/time.ts"
import { Counter } from "../concurrency/Counter.ts"
import { findSession } from "../merchants/member/sessions.ts"
import type { Html } from "../pages/html.ts"
import { may, type Right } from "../security/role/rights.ts"
import { memberPage, NOTHING, type Viewer } from "./pages.ts"

/** How often a part is rendered again. People see a change within seconds, and a page costs little while nothing changes. */
const TICK_MS = 3 * SECOND_MS
/** A rendering that is not older is shared. */
const FRESH_MS = TICK_MS / 2
/** A stream without events is closed by proxies after a minute or so. */
const PING_EVERY_TICKS = 5
/** A page that is open for longer opens a new stream. */
const LONGEST_TICKS = (30 * MINUTE_MS) / TICK_MS
/** Open streams of an account, and of a process. Further pages are shown without being followed. */
const MAX_OF_ACCOUNT = 50
const MAX_IN_ALL = 1_000
/** Parts that are kept to be shared; each belongs to an open page. */
const MAX_SHARED = 2_000

interface Rendered {
  readonly at: number
  readonly text: Deferred.Deferred<string, Problem | SqlError.SqlError>
}

export class LiveParts extends Context.Service<
  LiveParts,
  {
    readonly open: Counter
    readonly shared: Map<string, Rendered>
    readonly stopped: Effect.Effect<void>
    /** Ends all streams. */
    readonly stop: Effect.Effect<void>
  }
>()("billing/dashboard/LiveParts") {
  static readonly layer = Layer.effect(
    LiveParts,
    Effect.gen(function* () {
      const stopping = yield* Deferred.make<void>()
      return LiveParts.of({
        open: new Counter(),
        shared: new Map(),
        stopped: Deferred.await(stopping),
        stop: Effect.asVoid(Deferred.succeed(stopping, undefined)),
      })
    }),
  )
}

/** One event of the stream: the part's markup, line by line. */
const eventOf = (text: string): string =>
  `${text
    .split("\n")
    .map((line) => `data: ${line}`)
    .join("\n")}\n\n`

const ALL = "all"

/** Renders a part, or waits for the same rendering by another page. */
const share = <R>(
  shared: Map<string, Rendered>,
  key: string,
  render: Effect.Effect<Html, Problem | SqlError.SqlError, R>,
) =>
  Effect.suspend(() => {
    const now = performance.now()
    const recent = shared.get(key)
    if (recent !== undefined && now - recent.at < FRESH_MS) return Deferred.await(recent.text)
    if (shared.size >= MAX_SHARED) shared.clear()
    const text = Deferred.makeUnsafe<string, Problem | SqlError.SqlError>()
    shared.set(key, { at: now, text })
    return Effect.andThen(
      Effect.onExit(Effect.map(render, String), (exit) => Deferred.done(text, exit)),
      Deferred.await(text),
    )
  })

/** Whether the member may still see the part: the session, the membership and the role are read again. */
const stillMay = ({ cookie, session, environment, isOfAccount }: Viewer, right: Right) =>
  Effect.map(
    findSession(cookie, false),
    (now) =>
      now !== undefined &&
      now.account_id === session.account_id &&
      may(now.role, right, isOfAccount || environment === "live"),
  )

interface Tick {
  readonly sent: string
  readonly count: number
}

/**
 * Makes the route that follows a part of a page, at the page's path and `/live`. The part must be the same for all members with the right: it
 * contains no forms. The page shows it within an element with `hx-sse:connect` (`followed` in src/pages/dashboard/live.ts).
 */
export const livePart = <R>(
  path: string,
  right: Right,
  render: (viewer: Viewer) => Effect.Effect<Html, Problem | SqlError.SqlError, R>,
) =>
  memberPage(
    `${path}/live`,
    { right },
    {
      GET: Effect.fnUntraced(function* (viewer) {
        const { open, shared, stopped } = yield* LiveParts
        const context = yield* Effect.context<R | SqlClient.SqlClient>()
        const { account_id } = viewer.session
        if (open.of(ALL) >= MAX_IN_ALL || open.of(account_id) >= MAX_OF_ACCOUNT) return NOTHING
        const count = (by: number) =>
          Effect.sync(() => {
            open.add(ALL, by)
            open.add(account_id, by)
          })
        const key = `${account_id} ${viewer.path}?${viewer.search}`
        const part = Effect.provide(share(shared, key, render(viewer)), context)
        const tick = Effect.fnUntraced(function* ({ sent, count }: Tick) {
          // The page has just shown the part: what is sent first is rendered later than the page was, even if it is shared.
          yield* Effect.sleep(count === 0 ? FRESH_MS : TICK_MS)
          if (count >= LONGEST_TICKS || !(yield* stillMay(viewer, right))) return [[], Option.none<Tick>()] as const
          const text = yield* part
          const next = Option.some({ sent: text, count: count + 1 })
          if (text !== sent) return [[eventOf(text)], next] as const
          return [count % PING_EVERY_TICKS === 0 ? [": ping\n\n"] : [], next] as const
        })
        const events = Stream.paginate({ sent: "", count: 0 }, (state: Tick) =>
          Effect.map(tick(state), ([texts, next]) => [texts as ReadonlyArray<string>, next] as const),
        )
        const whole = Stream.unwrap(
          Effect.as(
            Effect.acquireRelease(count(1), () => count(-1)),
            events,
          ),
        )
        const stream = whole.pipe(
          Stream.interruptWhen(stopped),
          Stream.provideContext(context),
          Stream.encodeText,
          Stream.catchCause((cause) =>
            Stream.fromEffect(Effect.logWarning("a live part of a page ended", cause)).pipe(Stream.drain),
          ),
        )
        return {
          contentType: "text/event-stream; charset=utf-8",
          body: Buffer.from(""),
          stream,
          headers: { "cache-control": "no-store", "x-accel-buffering": "no" },
        }
      }),
    },
  )
