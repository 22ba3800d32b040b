/**
 * The cell of a process (decision O1): what it makes says so in its first two characters, so that a stock proxy can send a
 * request to where its account lives by the text of the request alone.
 */
import { createHash } from "node:crypto"
import { Context } from "effect"

export const DEFAULT_CELL = "00"

/** Two base62 characters. */
export const isCell = (text: string): boolean => /^[0-9A-Za-z]{2}$/.test(text)

/** Which one it is. */
export const Cell = Context.Reference<string>("billing/cell/Cell", { defaultValue: () => DEFAULT_CELL })

export const CELL_LENGTH = 2
export const TAG_LENGTH = 8

/** What links that a cell made of an account have in common: a proxy tells those of an account that has moved by it. Base64url. */
export const tagOf = (cell: string, account: string): string =>
  createHash("sha256").update(`${cell} ${account}`).digest("base64url").slice(0, TAG_LENGTH)
