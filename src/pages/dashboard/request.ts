/** Renders the page of an API request. */
import type { LoggedRequest } from "../../merchants/request/api.ts"
import { type Html, html } from "../html.ts"
import { facts, pageHead, section, table, when } from "./parts.ts"

type Row = typeof LoggedRequest.Type

/** The status of a response, with a colour. */
export const responseStatus = ({ status }: Row): Html =>
  html`<span class="${`status ${status < 400 ? "good" : status < 500 ? "warn" : "bad"}`}">${status}</span>`

export const durationText = ({ duration_ms: ms }: Row): string => `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`

export interface RequestView {
  readonly base: string
  readonly request: Row
  /** The object that the path names; null: none. */
  readonly objectId: string | null
  readonly objectPath: string | null
  /** What it made or changed. `href`: the page of the object, if it has one. */
  readonly did: ReadonlyArray<Deed>
}

interface Deed {
  readonly action: string
  readonly id: string | null
  readonly href: string | null
}

const deeds = (did: ReadonlyArray<Deed>): Html =>
  section(
    "What it did",
    did.length === 0
      ? html`<p class="quiet">It changed nothing.</p>`
      : table(
          "What it did",
          [
            { name: "What", cell: ({ action }: Deed) => html`<code>${action}</code>` },
            {
              name: "Object",
              cell: ({ id, href }) => (href === null ? (id ?? "–") : html`<a href="${href}">${id}</a>`),
            },
          ],
          did,
        ),
  )

export const requestMain = ({ base, request, objectId, objectPath, did }: RequestView): Html => {
  const { id, method, path, error_code: code, key_last4, created_at, idempotent_replay: isReplay } = request
  return html`${pageHead(`${method} ${path}`, html`<code>${id}</code>`)}${facts([
    ["When", when(created_at)],
    ["Response", responseStatus(request)],
    ["Error", code === null ? null : html`<a href="${`/docs/errors#${code}`}">${code}</a>`],
    ["Object", objectPath === null ? objectId : html`<a href="${objectPath}">${objectId}</a>`],
    ["Key", html`<code>…${key_last4}</code>`],
    ["Duration", durationText(request)],
    ["Replay", isReplay ? "the stored response of an earlier request with the same Idempotency-Key" : "no"],
  ])}
${deeds(did)}<p class="section quiet">Bodies and headers are never kept. <a href="${`${base}/requests`}">All requests</a></p>`
}
