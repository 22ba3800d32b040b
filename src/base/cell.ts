/**
 * The cell of a process (decision O1). API keys, tokens of links and cookies of the dashboard begin with the two characters of the cell that made
 * them, so that a stock proxy can route a request to the cell of its account by the text of the request alone.
 */
import { createHash } from "node:crypto"
import { Context } from "effect"

export const DEFAULT_CELL = "00"

/** Two base62 characters. */
export const isCell = (text: string): boolean => /^[0-9A-Za-z]{2}$/.test(text)

/** The cell of this process. */
export const Cell = Context.Reference<string>("billing/base/Cell", { defaultValue: () => DEFAULT_CELL })

export const CELL_LENGTH = 2
export const TAG_LENGTH = 8

/** The tag that all links of one account made in one cell share. A proxy recognises links of a moved account by it. Base64url. */
export const tagOf = (cell: string, account: string): string =>
  createHash("sha256").update(`${cell} ${account}`).digest("base64url").slice(0, TAG_LENGTH)
