/** Renders the page of a webhook endpoint, and the result of a test event (decisions I1, I2, I8). */
import type { WebhookEndpoint } from "../../outbound/webhook/api.ts"
import { type Html, html } from "../html.ts"
import { facts, notice, pageHead, section, status, when } from "./parts.ts"

type Endpoint = typeof WebhookEndpoint.Type

export interface WebhookView {
  readonly base: string
  readonly endpoint: Endpoint
}

/** Why the service disabled an endpoint, and what its owner does. */
const WHY: Readonly<Record<NonNullable<Endpoint["disabled_reason"]>, string>> = {
  endpoint_gone: "It answered 410 Gone, so the service disabled it.",
  repeated_failures: "It accepted no event for days, so the service disabled it.",
}

const disabledNotice = ({ disabled_reason: reason }: Endpoint): Html =>
  notice(
    "warning",
    html`<p>${reason === null ? "It is disabled: nothing is sent to it." : WHY[reason]} Mend it, then enable it. Events of the meantime are not sent by themselves: send those that you need again from their page.</p>`,
  )

export const webhookMain = ({ base, endpoint }: WebhookView): Html => {
  const { id, url, description, enabled_events: events, created_at, status: literal } = endpoint
  const path = `${base}/webhooks/${id}`
  const isEnabled = literal === "enabled"
  return html`${pageHead(description ?? "Webhook endpoint", html`<code>${id}</code>`, [
    { href: `${path}/test`, label: "Send a test event", isMain: true },
    { href: `${path}/edit`, label: "Change" },
    { href: `${path}/roll-secret`, label: "Roll the secret" },
    isEnabled ? { href: `${path}/disable`, label: "Disable" } : { href: `${path}/enable`, label: "Enable" },
    { href: `${path}/delete`, label: "Delete", isDanger: true },
  ])}${!isEnabled && disabledNotice(endpoint)}${facts([
    ["URL", html`<code class="breaks">${url}</code>`],
    ["Status", status(literal)],
    ["Events", events.includes("*") ? "all" : html`${events.map((event) => html`<code>${event}</code> `)}`],
    ["Since", when(created_at)],
  ])}
${section(
  "Deliveries",
  html`<p>Each event lists its deliveries, with the answers of your server: <a href="${`${base}/events`}">Events</a>.</p>`,
)}`
}

export interface TestedView {
  readonly base: string
  readonly id: string
  readonly result: {
    readonly event: string
    readonly response_status: number | null
    readonly duration_ms: number
    readonly delivered: boolean
  }
}

export const testedMain = ({ base, id, result }: TestedView): Html => {
  const { event, response_status: code, duration_ms, delivered } = result
  return html`${pageHead("Result of the test")}${
    delivered
      ? notice("good", html`<p>Your server accepted the event.</p>`)
      : notice("error", html`<p>Your server did not accept the event${code === null && ": no answer came"}.</p>`)
  }${facts([
    ["Status", code === null ? "no answer" : String(code)],
    ["Duration", `${duration_ms} ms`],
    ["Event", html`<a href="${`${base}/events/${event}`}">${event}</a>`],
  ])}
<p class="section"><a class="act main" href="${`${base}/webhooks/${id}`}">Back to the endpoint</a></p>`
}
