/** What an event says, and how it is kept small enough to be delivered (decision C7). Pure. */
import type { Json } from "../../base/json.ts"

/** Of an event as webhooks deliver it. */
export const MAX_EVENT_BYTES = 64 * 1024
/** More than there is beside the data: the type alone has up to 100 characters, of which JSON may escape each in 6. */
const MAX_HEAD_BYTES = 1024
/** Of `object` and `previous_attributes`; the database holds it too. */
export const MAX_DATA_BYTES = MAX_EVENT_BYTES - MAX_HEAD_BYTES

const write = (object: Json, previous: Json): string => JSON.stringify({ object, previous_attributes: previous })

const fits = (text: string): boolean => Buffer.byteLength(text) <= MAX_DATA_BYTES

/** The bytes of an event's data with nothing in `previous_attributes`. */
export const leastBytes = (object: Json): number => Buffer.byteLength(write(object, {}))

/** The names of fields, the largest first. */
const largestFirst = (fields: Json): ReadonlyArray<string> =>
  Object.entries(fields)
    .map(([name, value]) => ({ name, bytes: Buffer.byteLength(JSON.stringify({ [name]: value })) }))
    .sort((a, b) => b.bytes - a.bytes)
    .map(({ name }) => name)

/** What `writeWith` makes of the fields without the largest ones, as few of them as it takes to fit. */
const fitting = (fields: Json, writeWith: (kept: Json) => string): string => {
  const names = largestFirst(fields)
  let text = writeWith(fields)
  for (let count = 1; !fits(text) && count <= names.length; count++) {
    const left = new Set(names.slice(0, count))
    text = writeWith(Object.fromEntries(Object.entries(fields).filter(([name]) => !left.has(name))))
  }
  return text
}

/**
 * An event's data as JSON: `object`, and in `previous_attributes` what changed, without its largest fields where both
 * together would be over {@link MAX_DATA_BYTES}. An object that is over it alone loses its own largest fields, as the
 * schedule of hundreds of instalments. Nothing else that the API takes in is so large; but whatever a row may hold, what
 * happened to it is told, and a renewal never fails of it.
 */
export const eventData = (object: Json, previous: Json): string => {
  const text = write(object, previous)
  if (fits(text)) return text
  const shorter = fitting(previous, (kept) => write(object, kept))
  return fits(shorter) ? shorter : fitting(object, (kept) => write(kept, {}))
}
