/** What messengers say of messages that they took, as all of them could say it. */
import type { Channel } from "../../machines/nudge.ts"
import { parseExactly } from "../json.ts"

export interface Receipt {
  readonly channel: Channel
  /** One of these two says which message is meant. */
  readonly nudgeId: string | null
  readonly messageId: string | null
  readonly delivered: boolean
  readonly reason: string | null
}

type Headers = Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

/** What a messenger's calls to `/callbacks/{provider}/{account}` mean; undefined where a call is not the messenger's. */
export interface Callback {
  readonly receipts: (headers: Headers, raw: Buffer) => ReadonlyArray<Receipt> | undefined
  /** What is to be answered to the messenger that is shown the address. */
  readonly handshake: (search: URLSearchParams) => string | undefined
}

/** The JSON of a call whose signature was right, IDs in it exactly as they are written. */
export const parse = <T extends object>(raw: Buffer): Partial<T> =>
  (parseExactly(raw.toString("utf8")) as T | null) ?? {}
