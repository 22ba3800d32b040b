/** The pages of the log of API requests (decision R12). */
import { Effect } from "effect"
import { isPlanCode, kindOf } from "../base/ids.ts"
import { activityOfRequest } from "../merchants/activity/activities.ts"
import { type LoggedRequest, OUTCOMES, requestApi } from "../merchants/request/api.ts"
import { when } from "../pages/dashboard/parts.ts"
import { durationText, requestMain, responseStatus } from "../pages/dashboard/request.ts"
import { html } from "../pages/html.ts"
import { choicesOf, listPages } from "./lists.ts"
import { pathOfObject } from "./objects.ts"
import { call, memberPage, show } from "./pages.ts"

type Row = typeof LoggedRequest.Type

const list = listPages<Row>({
  path: "/requests",
  title: "Requests",
  right: "develop",
  declaration: requestApi.list,
  about: "What your keys asked of the API in the last 30 days.",
  filters: [{ name: "status", label: "Outcome", kind: "select", choices: choicesOf(OUTCOMES) }],
  columns: ({ base }) => [
    {
      name: "Request",
      cell: ({ id, method, path }) =>
        html`<a class="breaks" href="${`${base}/requests/${id}`}"><code>${method} ${path}</code></a>`,
    },
    { name: "Response", cell: responseStatus },
    { name: "Error", cell: ({ error_code: code }) => code ?? "–" },
    { name: "Key", cell: ({ key_last4 }) => html`<code>…${key_last4}</code>` },
    { name: "Replay", cell: ({ idempotent_replay: isReplay }) => (isReplay ? "yes" : "–") },
    { name: "Duration", cell: durationText, isNumber: true },
    { name: "When", cell: ({ created_at }) => when(created_at) },
  ],
  csv: [
    ["id", ({ id }) => id],
    ["created_at", ({ created_at }) => created_at],
    ["method", ({ method }) => method],
    ["path", ({ path }) => path],
    ["status", ({ status }) => status],
    ["error_code", ({ error_code }) => error_code],
    ["key_last4", ({ key_last4 }) => key_last4],
    ["duration_ms", ({ duration_ms }) => duration_ms],
    ["idempotent_replay", ({ idempotent_replay }) => idempotent_replay],
  ],
  empty: ({ base }) => ({
    title: "No requests yet",
    text: "Each request of your keys to the API appears here a second or two after its response.",
    action: { href: `${base}/keys`, label: "API keys", isMain: true },
  }),
})

/** The first object that a path names. */
const objectIn = (path: string): string | null =>
  path.split("/").find((segment) => kindOf(segment) !== undefined || isPlanCode(segment)) ?? null

const one = memberPage(
  "/dashboard/:environment/requests/:id",
  { right: "develop" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const { base, environment, params } = viewer
      const { data: request } = yield* call(viewer, requestApi.get, { params })
      const objectId = objectIn(request.path)
      const endedAt = Date.parse(request.created_at)
      const did = yield* activityOfRequest(viewer.tenant, request.id, endedAt, request.duration_ms)
      const view = {
        base,
        request,
        objectId,
        objectPath: pathOfObject(objectId, environment),
        did: did.map(({ action, object_id: id }) => ({ action, id, href: pathOfObject(id, environment) })),
      }
      return show(viewer, `${request.method} ${request.path}`, requestMain(view))
    }),
  },
)

export const requestRoutes = [...list, one]
