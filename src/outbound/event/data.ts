/** Builds the data of an event and keeps it small enough to be delivered (decision C7). Pure. */
import type { Json } from "../../base/json.ts"

/** The maximum size of an event as webhooks deliver it. */
export const MAX_EVENT_BYTES = 64 * 1024
/** Room for the fields beside the data: the type alone has up to 100 characters, each escaped to at most 6 in JSON. */
const MAX_HEAD_BYTES = 1024
/** The maximum size of `object` and `previous_attributes` together. A constraint of the database checks it too. */
export const MAX_DATA_BYTES = MAX_EVENT_BYTES - MAX_HEAD_BYTES

const write = (object: Json, previous: Json): string => JSON.stringify({ object, previous_attributes: previous })

const fits = (text: string): boolean => Buffer.byteLength(text) <= MAX_DATA_BYTES

/** Returns the size in bytes of an event's data with empty `previous_attributes`. */
export const leastBytes = (object: Json): number => Buffer.byteLength(write(object, {}))

/** Returns the names of fields, the largest first. */
const largestFirst = (fields: Json): ReadonlyArray<string> =>
  Object.entries(fields)
    .map(([name, value]) => ({ name, bytes: Buffer.byteLength(JSON.stringify({ [name]: value })) }))
    .sort((a, b) => b.bytes - a.bytes)
    .map(({ name }) => name)

/** Returns the text that `writeWith` makes of the fields. Leaves out the largest fields, as few as necessary, until it fits. */
const fitting = (fields: Json, writeWith: (kept: Json) => string): string => {
  const names = largestFirst(fields)
  let text = writeWith(fields)
  for (let count = 1; !fits(text) && count <= names.length; count++) {
    const omitted = new Set(names.slice(0, count))
    text = writeWith(Object.fromEntries(Object.entries(fields).filter(([name]) => !omitted.has(name))))
  }
  return text
}

/**
 * Returns an event's data as JSON: `object`, and the changed fields in `previous_attributes`. If both together exceed
 * {@link MAX_DATA_BYTES}, the largest previous values are left out. If the object alone exceeds it (a schedule of hundreds of
 * instalments), its largest fields are left out too. So an event is always written, and a renewal never fails because of size.
 */
export const eventData = (object: Json, previous: Json): string => {
  const text = write(object, previous)
  if (fits(text)) return text
  const shorter = fitting(previous, (kept) => write(object, kept))
  return fits(shorter) ? shorter : fitting(object, (kept) => write(kept, {}))
}
