/** The pages of webhook endpoints: the list, one endpoint, and the actions on it. A secret is shown once. */
import { Effect } from "effect"
import type { Json } from "../base/json.ts"
import { formatInstant, parseInstant } from "../base/time.ts"
import { type WebhookEndpoint, webhookApi } from "../outbound/webhook/api.ts"
import { status, when, words } from "../pages/dashboard/parts.ts"
import { secretMain } from "../pages/dashboard/secret.ts"
import { type TestedView, testedMain, webhookMain } from "../pages/dashboard/webhook.ts"
import { type Html, html } from "../pages/html.ts"
import { actionPage } from "./actions.ts"
import type { Input } from "./inputs.ts"
import { listPages } from "./lists.ts"
import { call, memberPage, show, type Viewer, withNotice } from "./pages.ts"

type Row = typeof WebhookEndpoint.Type

const list = listPages<Row>({
  path: "/webhooks",
  title: "Webhooks",
  right: "develop",
  declaration: webhookApi.list,
  filters: [],
  about: "Addresses of your server that get events as they happen.",
  actions: ({ base }) => [{ href: `${base}/webhooks/new`, label: "New endpoint", isMain: true }],
  columns: ({ base }) => [
    { name: "URL", cell: ({ id, url }) => html`<a class="breaks" href="${`${base}/webhooks/${id}`}">${url}</a>` },
    {
      name: "Events",
      cell: ({ enabled_events }) =>
        enabled_events.includes("*")
          ? "all"
          : enabled_events.slice(0, 3).join(", ") + (enabled_events.length > 3 ? ", …" : ""),
    },
    { name: "Status", cell: (row) => status(row.status) },
    { name: "Why", cell: ({ disabled_reason }) => (disabled_reason === null ? "–" : words(disabled_reason)) },
    { name: "Since", cell: ({ created_at }) => when(created_at) },
  ],
  csv: [
    ["id", ({ id }) => id],
    ["url", ({ url }) => url],
    ["description", ({ description }) => description],
    ["enabled_events", ({ enabled_events }) => enabled_events.join(" ")],
    ["status", (row) => row.status],
    ["disabled_reason", ({ disabled_reason }) => disabled_reason],
    ["created_at", ({ created_at }) => created_at],
  ],
  empty: ({ base }) => ({
    title: "No endpoints yet",
    text: "An endpoint is an address of your server. It gets each event, such as charge.succeeded, as a signed POST.",
    action: { href: `${base}/webhooks/new`, label: "New endpoint", isMain: true },
  }),
})

const FIELDS: ReadonlyArray<Input> = [
  {
    name: "url",
    label: "URL",
    kind: "url",
    hint: "Such as https://shop.example/webhooks",
    isRequired: true,
    maxlength: 2_000,
    whenEmpty: "empty",
  },
  { name: "description", label: "Description", kind: "text", maxlength: 200, whenEmpty: "null" },
  {
    name: "enabled_events",
    label: "Events",
    kind: "textarea",
    as: "words",
    hint: "One in each line: a type such as charge.failed, a family such as charge.*, or * for all",
    isRequired: true,
    whenEmpty: "empty",
  },
]

const ABOUT: Html = html`Your server gets the events that you choose. The <a href="/docs">API reference</a> lists their types.`

const showSecret = (viewer: Viewer, result: Json, title: string, about: string) =>
  Effect.succeed(
    show(
      viewer,
      title,
      secretMain({
        title,
        secret: String(result.secret),
        about,
        facts: [["Endpoint", String(result.url)]],
        backTo: `${viewer.base}/webhooks/${result.id}`,
        backText: "I have copied it",
      }),
    ),
  )

const create = actionPage({
  path: "/webhooks/new",
  declaration: webhookApi.create,
  subject: ({ base }) =>
    Effect.succeed({
      title: "New webhook endpoint",
      about: ABOUT,
      initial: new Map([["enabled_events", ["*"]]]),
      backTo: `${base}/webhooks`,
      fields: FIELDS,
    }),
  button: "Create the endpoint",
  done: (viewer, result) =>
    showSecret(viewer, result, "Secret of the endpoint", "Your server verifies the signature of each event with it."),
})

const read = (viewer: Viewer) => Effect.map(call(viewer, webhookApi.get, { params: viewer.params }), ({ data }) => data)

const pathOf = ({ base, params }: Viewer): string => `${base}/webhooks/${params.id}`

const edit = actionPage({
  path: "/webhooks/:id/edit",
  declaration: webhookApi.update,
  subject: Effect.fnUntraced(function* (viewer) {
    const { url, description, enabled_events } = yield* read(viewer)
    return {
      title: "Change the endpoint",
      about: ABOUT,
      initial: new Map([
        ["url", [url]],
        ["description", [description ?? ""]],
        ["enabled_events", [enabled_events.join("\n")]],
      ]),
      backTo: pathOf(viewer),
      fields: FIELDS,
    }
  }),
  button: "Save",
  done: (viewer) => withNotice(pathOf(viewer), "saved"),
})

/** What an action without fields says before it is done. */
const confirming = (title: string, about: string) =>
  Effect.fnUntraced(function* (viewer: Viewer) {
    const { url } = yield* read(viewer)
    return {
      title,
      about: html`<code class="breaks">${url}</code>: ${about}`,
      initial: new Map(),
      backTo: pathOf(viewer),
      fields: [],
    }
  })

const enable = actionPage({
  path: "/webhooks/:id/enable",
  declaration: webhookApi.update,
  subject: confirming("Enable the endpoint", "it gets the events that happen from now on, not those of before."),
  fixed: () => ({ status: "enabled" }),
  button: "Enable the endpoint",
  done: (viewer) => withNotice(pathOf(viewer), "done"),
})

const disable = actionPage({
  path: "/webhooks/:id/disable",
  declaration: webhookApi.update,
  subject: confirming("Disable the endpoint", "nothing is sent to it, and events that wait for it are given up."),
  fixed: () => ({ status: "disabled" }),
  button: "Disable the endpoint",
  isDanger: true,
  done: (viewer) => withNotice(pathOf(viewer), "done"),
})

const remove = actionPage({
  path: "/webhooks/:id/delete",
  declaration: webhookApi.remove,
  subject: confirming("Delete the endpoint", "nothing is sent to it any more. This cannot be undone."),
  button: "Delete the endpoint",
  isDanger: true,
  done: ({ base }) => withNotice(`${base}/webhooks`, "deleted"),
})

const rollSecret = actionPage({
  path: "/webhooks/:id/roll-secret",
  declaration: webhookApi.rollSecret,
  subject: confirming("Roll the secret", "you get a new secret. For 24 hours the old one signs too."),
  button: "Make a new secret",
  done: (viewer, result) => {
    const until = formatInstant(parseInstant(String(result.previous_secret_expires_at))!)
    return showSecret(viewer, result, "New secret of the endpoint", `The old secret signs too, until ${until}.`)
  },
})

const test = actionPage({
  path: "/webhooks/:id/test",
  declaration: webhookApi.test,
  subject: confirming("Send a test event", "it gets an event of the type webhook_endpoint.test, now and once."),
  button: "Send the test event",
  done: (viewer, result) => {
    const view = { base: viewer.base, id: viewer.params.id!, result: result as TestedView["result"] }
    return Effect.succeed(show(viewer, "Result of the test", testedMain(view)))
  },
})

const one = memberPage(
  "/dashboard/:environment/webhooks/:id",
  { right: "develop" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const endpoint = yield* read(viewer)
      const title = endpoint.description ?? "Webhook endpoint"
      return show(viewer, title, webhookMain({ base: viewer.base, endpoint }))
    }),
  },
)

export const webhookRoutes = [...list, create, edit, enable, disable, remove, rollSecret, test, one]
