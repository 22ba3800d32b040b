/** What messengers say of messages that they took, as all of them could say it. */
import type { Channel, NudgeFailure } from "../../../machines/nudge.ts"
import { parseExactly } from "../../base/json.ts"

export interface Receipt {
  readonly channel: Channel
  /** One of these two says which message is meant. */
  readonly nudgeId: string | null
  readonly messageId: string | null
  readonly delivered: boolean
  readonly reason: NudgeFailure | null
}

type Headers = Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

/** What a messenger's calls to `/callbacks/{provider}/{account}` mean; undefined where a call is not the messenger's. */
export interface Callback {
  readonly receipts: (headers: Headers, raw: Buffer) => ReadonlyArray<Receipt> | undefined
  /** What is to be answered to the messenger that is shown the address. */
  readonly handshake: (search: URLSearchParams) => string | undefined
}

/** Of which nothing is known but that it is an object. */
export type Fields = Readonly<Record<string, unknown>>

/** The fields of an object; of anything else none. */
export const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {}

/** The objects in a list; in anything else none. */
export const objectsIn = (value: unknown): ReadonlyArray<Fields> => (Array.isArray(value) ? value.map(fieldsOf) : [])

/** The JSON of a call whose signature was right, IDs in it exactly as they are written. */
export const parse = (raw: Buffer): Fields => fieldsOf(parseExactly(raw.toString("utf8")))

const MAX_ID = 200

/** What somebody calls a message, as far as it can be a name that we know. */
export const idIn = (value: unknown): string | null => {
  const text = typeof value === "number" ? String(value) : value
  return typeof text === "string" && text.length <= MAX_ID && /^[\x21-\x7e]+$/.test(text) ? text : null
}
