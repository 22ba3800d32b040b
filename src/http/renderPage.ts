/** A page as its response has it: as many of its objects as a response holds. */
import { Effect } from "effect"
import type { Json } from "../base/json.ts"
import type { Page } from "./Endpoint.ts"
import { listSuccess } from "./envelope.ts"

/** Of rendered objects, what is expanded in them included. 100 usual objects are a tenth of it. */
export const MAX_PAGE_BYTES = 1_048_576
/** Objects whose fields are expanded at a time: what is read for those that no longer fit is bounded by it. */
const EXPANDED_AT_ONCE = 20

/**
 * Renders a page, its objects expanded by `expand`. The first object that would take it over {@link MAX_PAGE_BYTES} ends it, and
 * is the next page's; a page has one object at least.
 */
export const renderPage = Effect.fnUntraced(function* <E, R>(
  { data, hasMore, limit, backwards = false, cursorOf = ({ id }) => id as string }: Page<Json>,
  expand: (objects: ReadonlyArray<Json>) => Effect.Effect<ReadonlyArray<Json>, E, R>,
) {
  // From the cursor on: what does not fit lies farthest from it.
  const objects = backwards ? data.toReversed() : data
  const texts: Array<string> = []
  let bytes = 0
  let full = false
  for (let at = 0; at < objects.length && !full; at += EXPANDED_AT_ONCE) {
    for (const object of yield* expand(objects.slice(at, at + EXPANDED_AT_ONCE))) {
      const text = JSON.stringify(object)
      bytes += Buffer.byteLength(text) + 1
      full = bytes > MAX_PAGE_BYTES && texts.length > 0
      if (full) break
      texts.push(text)
    }
  }
  const last = backwards ? objects[0] : objects[texts.length - 1]
  const has_more = hasMore || full
  const next_cursor = has_more && last !== undefined ? cursorOf(last) : null
  return listSuccess(backwards ? texts.reverse() : texts, { has_more, next_cursor, limit })
})
