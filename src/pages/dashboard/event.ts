/** Renders the page of an event: what happened, who got it, and what was sent. */
import type { Event } from "../../outbound/event/api.ts"
import { EVENT_MEANINGS, type EventType } from "../../outbound/event/types.ts"
import type { Delivery } from "../../outbound/webhook/api.ts"
import { type Html, html } from "../html.ts"
import { jsonBlock } from "./json.ts"
import { facts, pageHead, section, status, table, when, words } from "./parts.ts"

type DeliveryView = typeof Delivery.Type

export interface EventView {
  readonly base: string
  readonly event: typeof Event.Type
  readonly objectId: string | null
  /** null: the object has no page. */
  readonly objectPath: string | null
  /** The page of the request that caused it; null: no request did. */
  readonly requestPath: string | null
  /** Newest first. */
  readonly deliveries: ReadonlyArray<DeliveryView>
  /** The URLs of the endpoints, by ID. */
  readonly urls: ReadonlyMap<string, string>
}

const meaningOf = (type: string): string | null =>
  Object.hasOwn(EVENT_MEANINGS, type) ? EVENT_MEANINGS[type as EventType].replaceAll("`", "") : null

const MAX_BODY = 300

const answer = ({
  response_status: code,
  response_body: body,
  failure_reason: reason,
  duration_ms,
}: DeliveryView): Html =>
  html`<div>${code ?? "no answer"}${duration_ms !== null && ` in ${duration_ms} ms`}${reason !== null && html` <span class="quiet">${words(reason)}</span>`}${
    body !== null &&
    body !== "" &&
    html`<details><summary>What it answered</summary><code class="breaks">${body.slice(0, MAX_BODY)}${body.length > MAX_BODY && "…"}</code></details>`
  }</div>`

const deliveriesTable = ({ base, deliveries, urls }: EventView): Html =>
  deliveries.length === 0
    ? html`<p class="quiet">None: no endpoint was enabled for this type when it happened.</p>`
    : table(
        "Deliveries",
        [
          {
            name: "Endpoint",
            cell: ({ webhook_endpoint: id }: DeliveryView) =>
              urls.has(id)
                ? html`<a class="breaks" href="${`${base}/webhooks/${id}`}">${urls.get(id)}</a>`
                : html`<code>${id}</code> (deleted)`,
          },
          { name: "Status", cell: (row) => status(row.status) },
          { name: "Tries", cell: ({ attempt }) => attempt, isNumber: true },
          { name: "Last answer", cell: (row) => (row.attempt === 0 ? "–" : answer(row)) },
          { name: "Next try", cell: ({ next_attempt_at }) => when(next_attempt_at) },
          { name: "Since", cell: ({ created_at }) => when(created_at) },
        ],
        deliveries,
      )

export const eventMain = (view: EventView): Html => {
  const { base, event, objectId, objectPath, requestPath } = view
  const { id, type, created_at } = event
  const path = `${base}/events/${id}`
  return html`${pageHead(type, html`<code>${id}</code>`, [{ href: `${path}/resend`, label: "Send again", isMain: true }])}${facts(
    [
      ["Meaning", meaningOf(type)],
      ["When", when(created_at)],
      ["Object", objectPath === null ? objectId : html`<a href="${objectPath}">${objectId}</a>`],
      ["Request", requestPath === null ? null : html`<a href="${requestPath}">Open the request</a>`],
    ],
  )}
${section("Deliveries", deliveriesTable(view))}${section("The event as it was sent", jsonBlock("The event as JSON", event, `${path}/json`))}`
}
