/** Renders a page: as many of its objects as fit into a response. */
import { Effect } from "effect"
import type { Json } from "../base/json.ts"
import type { Page } from "./Endpoint.ts"
import { listSuccess } from "./envelope.ts"

/** Limit of rendered objects, with expanded ones. 100 usual objects take a tenth of it. */
export const MAX_PAGE_BYTES = 1_048_576
/** Objects that are expanded together: it bounds the wasted reads for objects that no longer fit. */
const EXPANDED_AT_ONCE = 20

/**
 * Renders a page, with its objects expanded by `expand`. The page ends before the first object that would exceed
 * {@link MAX_PAGE_BYTES}; that object starts the next page. A page has at least one object.
 */
export const renderPage = Effect.fnUntraced(function* <E, R>(
  { data, hasMore, limit, meta = {}, backwards = false, cursorOf = ({ id }) => id as string }: Page<Json>,
  expand: (objects: ReadonlyArray<Json>) => Effect.Effect<ReadonlyArray<Json>, E, R>,
) {
  // In the order from the cursor: the objects that do not fit are the farthest from it.
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
  return listSuccess(backwards ? texts.reverse() : texts, { has_more, next_cursor, limit, ...meta })
})
