/** Renders a part of a page that follows what happens (src/dashboard/LiveParts.ts). Without scripts it stays as it was loaded. */
import { type Html, html } from "../html.ts"

/** `path`: the route of the part. `content`: the part as it is now. */
export const followed = (path: string, content: Html): Html =>
  html`<div hx-sse:connect="${path}" hx-swap="innerHTML" class="followed">${content}</div>
`
