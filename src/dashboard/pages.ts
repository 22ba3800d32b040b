/**
 * The pages of the dashboard as routes. A page finds the session, checks the member's right in one place, reads the form, and shows a refusal
 * within the frame. Handlers get a `Viewer`: who looks, at what, and how to call the API for them.
 */
import { Effect, type Schema } from "effect"
import type { SqlError } from "effect/sql"
import { isProblem, type Problem, problem } from "../base/problem.ts"
import type { Tenant } from "../db/tenant.ts"
import { requireRight } from "../http/access.ts"
import type { Declaration } from "../http/Endpoint.ts"
import { type CallingMember, type Input, MemberCalls } from "../http/memberCalls.ts"
import { Origin } from "../http/Origin.ts"
import { refusedPage } from "../http/page.ts"
import { type PublicRequest, type PublicResponse, type PublicRoute, publicRoute } from "../http/publicRoutes.ts"
import { findSession, isFresh, type Session } from "../merchants/member/sessions.ts"
import { type Environment, type Frame, frame } from "../pages/dashboard/frame.ts"
import { notice, pageHead } from "../pages/dashboard/parts.ts"
import { DASHBOARD_HEADERS } from "../pages/headers.ts"
import { type Html, html } from "../pages/html.ts"
import { may, type Right } from "../security/role/rights.ts"
import { readCookie } from "./cookies.ts"
import { type Form, formTokenOf, readForm } from "./forms.ts"
import { noticeOf } from "./notices.ts"
import { readUpload } from "./uploads.ts"

/** A member who looks at a page. */
export interface Viewer {
  readonly session: Session
  /** The session's cookie. */
  readonly cookie: string
  readonly environment: Environment
  readonly isOfAccount: boolean
  /** The account and the environment of the page; for a page of the account: its live data. */
  readonly tenant: Tenant
  readonly member: CallingMember
  /** The `:name` segments of the path, without `:environment`. */
  readonly params: Readonly<Record<string, string>>
  readonly path: string
  /** `/dashboard/{environment}`. */
  readonly base: string
  readonly search: URLSearchParams
  readonly origin: string
  readonly formToken: string
  readonly request: PublicRequest
}

/** Whether the viewer may create and change objects here. */
export const canOperate = ({ session, environment }: Pick<Viewer, "session" | "environment">): boolean =>
  may(session.role, "operate", environment === "live")

type Result<R> = Effect.Effect<PublicResponse, Problem | SqlError.SqlError, R>

export interface PageHandlers<R> {
  readonly GET?: (viewer: Viewer) => Result<R>
  readonly POST?: (viewer: Viewer, form: Form) => Result<R>
}

export interface PageOptions {
  readonly right: Right
  /** Whether its POST needs a sign-in of the last 15 minutes. */
  readonly isSensitive?: boolean | ((viewer: Viewer) => boolean)
  /** Whether its form has a file (uploads.ts). */
  readonly takesFile?: boolean
}

export const document = (status: number, text: string): PublicResponse => ({
  status,
  contentType: "text/html; charset=utf-8",
  body: Buffer.from(text),
  headers: DASHBOARD_HEADERS,
})

/** Redirects a browser: after a form, so that a reload sends nothing again. `cookie`: a `Set-Cookie`. */
export const goTo = (path: string, cookie?: string): PublicResponse => ({
  status: 303,
  contentType: "text/plain; charset=utf-8",
  body: Buffer.from(""),
  headers: { ...DASHBOARD_HEADERS, location: path, ...(cookie === undefined ? {} : { "set-cookie": cookie }) },
})

export const jsonAnswer = (data: object, cookie?: string): PublicResponse => ({
  contentType: "application/json; charset=utf-8",
  body: Buffer.from(JSON.stringify({ success: true, data })),
  headers: cookie === undefined ? {} : { "set-cookie": cookie },
})

/** Adds a notice, by its name (notices.ts), to a path: the page shows it, also after a reload. */
export const withNotice = (path: string, name: string): string =>
  `${path}${path.includes("?") ? "&" : "?"}notice=${name}`

/** A path within the dashboard that a parameter names; others lead to the start. */
export const localPath = (path: string | null): string =>
  path !== null && /^\/dashboard(\/[\w./~%?=&+*-]*)?$/.test(path) && !path.includes("//") ? path : "/dashboard"

const frameOf = ({ session, environment, isOfAccount, path, search, formToken }: Viewer): Frame => ({
  environment,
  isOfAccount,
  business: session.business_name,
  vertical: session.vertical,
  email: session.email,
  role: session.role,
  isLiveApproved: session.live_access === "approved",
  account: session.account_id,
  accounts: session.memberships,
  path,
  notice: noticeOf(search.get("notice")),
  formToken,
})

/** Shows a page of the dashboard. `main` begins with the `h1`, which is the title. */
export const show = (viewer: Viewer, title: string, main: Html, status = 200): PublicResponse =>
  document(status, frame(frameOf(viewer), title, main))

/** Calls an endpoint of the API for the viewer, in the environment of the page. */
export const call = <Body, Query, Success extends Schema.Top, List extends boolean>(
  { member }: Viewer,
  declaration: Declaration<Body, Query, Success, List>,
  input?: Input,
) => Effect.flatMap(MemberCalls, ({ call }) => call(member, declaration, input))

const TITLES: Readonly<Partial<Record<Problem["code"], string>>> = {
  resource_missing: "This does not exist",
  role_insufficient: "Your role does not include this",
  form_invalid: "This form is not valid any more",
  live_access_required: "Live is not switched on",
  rate_limited: "Too many requests",
  too_many_in_flight: "Too many requests",
}

/** Shows a refusal within the frame. */
const showRefusal = (viewer: Viewer, refusal: Problem): PublicResponse => {
  const title =
    TITLES[refusal.code] ?? (refusal.status >= 500 ? "Something went wrong on our side" : "This cannot be done")
  return show(
    viewer,
    title,
    html`${pageHead(title)}${notice(refusal.status >= 500 ? "error" : "warning", html`<p>${refusal.message}</p>`)}<p class="quiet small">Request ${viewer.request.requestId}. <a href="${viewer.base}">Home</a></p>`,
    refusal.status,
  )
}

const wantsJson = ({ headers }: PublicRequest): boolean => headers.accept === "application/json"

/** Whether a page asks for the events of one of its parts (LiveParts.ts). */
const wantsEvents = ({ headers }: PublicRequest): boolean => headers.accept?.includes("text/event-stream") ?? false

/** An answer without content: a page that asks for events does not ask again. */
export const NOTHING: PublicResponse = { status: 204, contentType: "text/plain; charset=utf-8", body: Buffer.from("") }

const SIGN_IN = problem("sign_in_required", "Your session has ended: sign in again.")

const SIGN_IN_AGAIN = problem("sign_in_required", "This needs a sign-in of the last 15 minutes: sign in again.")

/** The page that sent a request, by its header Referer; undefined: none of this host. */
const pageBefore = ({ headers: { referer = "", host } }: PublicRequest): string | undefined => {
  const url = URL.canParse(referer) ? new URL(referer) : undefined
  return url?.host === host ? `${url?.pathname}${url?.search}` : undefined
}

/** The path that a sign-in leads back to: the page itself, or for a form the page that contains it. */
const backTo = (request: PublicRequest, method: "GET" | "POST", path: string): string => {
  const { search } = request
  const own = search.size > 0 ? `${path}?${search}` : path
  return encodeURIComponent(localPath(method === "GET" ? own : (pageBefore(request) ?? null)))
}

export const NAMES = /:(\w+)/g

/** Makes the pattern of a path such as `/dashboard/:environment/customers/:id`. */
const patternOf = (path: string): RegExp =>
  new RegExp(
    `^${path.replaceAll(".", "\\.").replaceAll(NAMES, (_, name: string) => (name === "environment" ? "(live|sandbox)" : "([^/]+)"))}/?$`,
  )

/** Decodes a segment of a path. The server refuses wrong escapes before. A NUL character, which Postgres stores nowhere, becomes a space. */
const decoded = (segment: string): string => decodeURIComponent(segment).replaceAll("\0", " ")

/** Makes the route of a page for members. */
export const memberPage = <R>(
  path: string,
  { right, isSensitive = false, takesFile = false }: PageOptions,
  handlers: PageHandlers<R>,
) => {
  const names = [...path.matchAll(NAMES)].map(([, name]) => name!)
  const respond = (method: "GET" | "POST") =>
    Effect.fnUntraced(function* (request: PublicRequest) {
      const { url: origin } = yield* Origin
      const cookie = readCookie(request.headers, "session", origin)
      const session = cookie === undefined ? undefined : yield* findSession(cookie, !wantsEvents(request))
      const all = Object.fromEntries(names.map((name, at) => [name, decoded(request.parts[at]!)]))
      const { environment: named, ...params } = all
      const shown = path.replaceAll(NAMES, (_, name: string) => encodeURIComponent(all[name]!))
      if (session === undefined || cookie === undefined) {
        if (wantsJson(request)) return yield* SIGN_IN
        if (wantsEvents(request)) return NOTHING
        return goTo(`/dashboard/sign-in?next=${backTo(request, method, shown)}`)
      }
      // A followed page is under way for as long as it is open: it takes no place of requests.
      if (!wantsEvents(request)) yield* request.enter(`dashboard ${session.account_id}`)
      else if (!(yield* Effect.isSuccess(request.enter(`events ${session.account_id}`)))) return NOTHING
      const usual: Environment = session.live_access === "approved" ? "live" : "sandbox"
      const environment = (named as Environment | undefined) ?? usual
      const livemode = named === undefined || environment === "live"
      const viewer: Viewer = {
        session,
        cookie,
        environment,
        isOfAccount: named === undefined,
        tenant: { account_id: session.account_id, livemode },
        member: {
          tenant: { account_id: session.account_id, livemode },
          caller: { kind: "member", id: session.member_id, email: session.email, role: session.role },
          isLiveApproved: session.live_access === "approved",
          address: request.address,
          requestId: request.requestId,
        },
        params,
        path: shown,
        base: `/dashboard/${environment}`,
        search: request.search,
        origin,
        formToken: formTokenOf(cookie, session.account_id),
        request,
      }
      const responding = Effect.gen(function* () {
        yield* requireRight(session.role, right, livemode)
        if (method === "GET") return yield* handlers.GET!(viewer)
        const form = yield* takesFile
          ? readUpload(request, origin, viewer.formToken, session.account_id)
          : readForm(request, origin, viewer.formToken)
        const isStale = (isSensitive instanceof Function ? isSensitive(viewer) : isSensitive) && !isFresh(session)
        if (isStale && wantsJson(request)) return yield* SIGN_IN_AGAIN
        if (isStale) return goTo(`/dashboard/sign-in?again=true&next=${backTo(request, method, shown)}`)
        return yield* handlers.POST!(viewer, form)
      })
      return yield* Effect.catchIf(
        responding,
        (error): error is Problem => isProblem(error) && !wantsJson(request),
        (refusal) => Effect.succeed(showRefusal(viewer, refusal)),
      )
    })
  return publicRoute(
    path,
    patternOf(path),
    {
      ...(handlers.GET === undefined ? {} : { GET: respond("GET") }),
      ...(handlers.POST === undefined ? {} : { POST: respond("POST") }),
    },
    { refused: refusedPage },
  )
}

/** Makes the route of a page without a session. */
export const visitorPage = <R>(
  path: string,
  methods: {
    readonly GET?: (request: PublicRequest, params: Readonly<Record<string, string>>) => Result<R>
    readonly POST?: (request: PublicRequest, params: Readonly<Record<string, string>>) => Result<R>
  },
): PublicRoute<R> => {
  const names = [...path.matchAll(NAMES)].map(([, name]) => name!)
  const paramsOf = ({ parts }: PublicRequest) =>
    Object.fromEntries(names.map((name, at) => [name, decoded(parts[at]!)]))
  const { GET: get, POST: post } = methods
  return publicRoute<R>(
    path,
    patternOf(path),
    {
      ...(get === undefined ? {} : { GET: (request: PublicRequest) => get(request, paramsOf(request)) }),
      ...(post === undefined ? {} : { POST: (request: PublicRequest) => post(request, paramsOf(request)) }),
    },
    { refused: refusedPage },
  )
}
