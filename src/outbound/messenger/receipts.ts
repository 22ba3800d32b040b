/** Receipts: what messengers report about accepted messages, in one form for all messengers. */
import type { Channel, NudgeFailure } from "../../../machines/nudge.ts"
import { parseExactly } from "../../base/json.ts"

export interface Receipt {
  readonly channel: Channel
  /** One of these two IDs identifies the message. */
  readonly nudgeId: string | null
  readonly messageId: string | null
  readonly delivered: boolean
  readonly reason: NudgeFailure | null
}

type Headers = Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

/** Reads a messenger's calls to `/callbacks/{provider}/{account}`. Returns undefined if the call is not the messenger's. */
export interface Callback {
  readonly receipts: (headers: Headers, raw: Buffer) => ReadonlyArray<Receipt> | undefined
  /** Returns the answer by which the messenger verifies the URL. */
  readonly handshake: (search: URLSearchParams) => string | undefined
}

/** An object with unknown fields. */
export type Fields = Readonly<Record<string, unknown>>

/** Returns an object's fields; `{}` for anything else. */
export const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {}

/** Returns a list's items as objects; `[]` for anything else. */
export const objectsIn = (value: unknown): ReadonlyArray<Fields> => (Array.isArray(value) ? value.map(fieldsOf) : [])

/** Parses the JSON of a call with a valid signature. Number IDs keep all digits. */
export const parse = (raw: Buffer): Fields => fieldsOf(parseExactly(raw.toString("utf8")))

const MAX_ID = 200

/** Reads a message ID; null if it cannot be an ID that is stored here. */
export const idIn = (value: unknown): string | null => {
  const text = typeof value === "number" ? String(value) : value
  return typeof text === "string" && text.length <= MAX_ID && /^[\x21-\x7e]+$/.test(text) ? text : null
}
