/** The pages of events: the list, one event with its deliveries, sending it again, and test events of the sandbox. */
import { Effect } from "effect"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { type Event, eventApi } from "../outbound/event/api.ts"
import { webhookApi } from "../outbound/webhook/api.ts"
import { eventMain } from "../pages/dashboard/event.ts"
import { when } from "../pages/dashboard/parts.ts"
import { html } from "../pages/html.ts"
import { requestOfEvent } from "../runtime/timeline.ts"
import { sandboxApi } from "../sandbox/api.ts"
import { actionPage } from "./actions.ts"
import type { Input } from "./inputs.ts"
import { listPages } from "./lists.ts"
import { pathOfObject } from "./objects.ts"
import { call, memberPage, show, type Viewer, withNotice } from "./pages.ts"
import { inSandbox } from "./sandbox.ts"

type Row = typeof Event.Type

/** Deliveries that the page of an event shows. */
const SHOWN = "25"
/** An account has at most 16 endpoints. */
const ALL_ENDPOINTS = "100"

/** The ID of the object of an event; null: it has none. */
export const objectIdOf = ({ data }: Row): string | null => (typeof data.object.id === "string" ? data.object.id : null)

const list = listPages<Row>({
  path: "/events",
  title: "Events",
  right: "develop",
  declaration: eventApi.list,
  about: "What happened, as your webhook endpoints get it.",
  filters: [
    { name: "type", label: "Type", kind: "text" },
    { name: "test_clock", label: "Test clock", kind: "text" },
    { name: "created_after", label: "After", kind: "instant" },
    { name: "created_before", label: "Before", kind: "instant" },
  ],
  actions: ({ base, environment }) => [
    { href: `${base}/webhooks`, label: "Webhooks" },
    ...(environment === "sandbox" ? [{ href: `${base}/events/trigger`, label: "Create a test event" }] : []),
  ],
  columns: ({ base, environment }) => [
    { name: "Event", cell: ({ id, type }) => html`<a href="${`${base}/events/${id}`}">${type}</a>` },
    {
      name: "Object",
      cell: (row) => {
        const id = objectIdOf(row)
        const path = pathOfObject(id, environment)
        return path === null ? (id ?? "–") : html`<a href="${path}">${id}</a>`
      },
    },
    { name: "When", cell: ({ created_at }) => when(created_at) },
    { name: "ID", cell: ({ id }) => html`<code class="small">${id}</code>` },
  ],
  csv: [
    ["id", ({ id }) => id],
    ["type", ({ type }) => type],
    ["object", objectIdOf],
    ["created_at", ({ created_at }) => created_at],
  ],
  empty: ({ base, environment }) => ({
    title: "No events yet",
    text: "Each change of a subscription, a charge or another object makes an event. Events are kept here, and sent to your webhook endpoints.",
    action:
      environment === "sandbox"
        ? { href: `${base}/events/trigger`, label: "Create a test event", isMain: true }
        : { href: `${base}/webhooks`, label: "Webhooks", isMain: true },
  }),
})

const endpointsOf = (viewer: Viewer) =>
  Effect.map(call(viewer, webhookApi.list, { query: { limit: ALL_ENDPOINTS } }), ({ data }) => data)

const read = (viewer: Viewer) => Effect.map(call(viewer, eventApi.get, { params: viewer.params }), ({ data }) => data)

const one = memberPage(
  "/dashboard/:environment/events/:id",
  { right: "develop" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const { base, environment, params } = viewer
      const event = yield* read(viewer)
      const [deliveries, endpoints] = yield* Effect.all(
        [call(viewer, webhookApi.deliveries, { params, query: { limit: SHOWN } }), endpointsOf(viewer)],
        { concurrency: 2 },
      )
      const objectId = objectIdOf(event)
      const { reading } = yield* TenantDatabase
      const requestId =
        objectId === null ? null : yield* reading(viewer.tenant, requestOfEvent(viewer.tenant, objectId, event.id))
      const view = {
        base,
        event,
        objectId,
        objectPath: pathOfObject(objectId, environment),
        requestPath: pathOfObject(requestId, environment),
        deliveries: deliveries.data,
        urls: new Map(endpoints.map(({ id, url }) => [id, url])),
      }
      return show(viewer, event.type, eventMain(view))
    }),
  },
)

const file = memberPage(
  "/dashboard/:environment/events/:id/json",
  { right: "develop" },
  {
    GET: (viewer) =>
      Effect.map(read(viewer), (event) => ({
        contentType: "application/json; charset=utf-8",
        body: Buffer.from(JSON.stringify(event)),
        fileName: `${event.id}.json`,
        isDownload: true,
      })),
  },
)

const resend = actionPage({
  path: "/events/:id/resend",
  declaration: webhookApi.resend,
  subject: Effect.fnUntraced(function* (viewer) {
    const event = yield* read(viewer)
    const enabled = (yield* endpointsOf(viewer)).filter(({ status }) => status === "enabled")
    const choices = [
      { value: "", label: "All that are enabled for it" },
      ...enabled.map(({ id, url }) => ({ value: id, label: url.slice(0, 100) })),
    ]
    return {
      title: `Send ${event.type} again`,
      about: html`The same event with the same ID: <code>${event.id}</code>`,
      initial: new Map(),
      backTo: `${viewer.base}/events/${event.id}`,
      fields: [{ name: "webhook_endpoint", label: "Endpoint", kind: "select", isRequired: true, choices }],
    }
  }),
  button: "Send it again",
  done: ({ base, params }) => withNotice(`${base}/events/${params.id}`, "resent"),
})

const TRIGGER_FIELDS: ReadonlyArray<Input> = [
  {
    name: "type",
    label: "Type",
    kind: "text",
    isRequired: true,
    maxlength: 100,
    hint: "Such as charge.failed",
    whenEmpty: "empty",
  },
  {
    name: "object",
    label: "Object",
    kind: "text",
    hint: "The ID of an object of the sandbox; without one it is a sample",
  },
  {
    name: "overrides",
    label: "Fields to change",
    kind: "textarea",
    as: "object",
    hint: 'As JSON, such as {"amount": 500000}',
  },
]

const trigger = actionPage({
  path: "/events/trigger",
  declaration: sandboxApi.trigger,
  subject: inSandbox(({ base }) =>
    Effect.succeed({
      title: "Create a test event",
      about: "Your webhook endpoints get it like any other. No object changes.",
      initial: new Map(),
      backTo: `${base}/events`,
      fields: TRIGGER_FIELDS,
    }),
  ),
  button: "Create the event",
  done: ({ base }, { id }) => withNotice(`${base}/events/${id}`, "triggered"),
})

export const eventRoutes = [...list, trigger, file, resend, one]
