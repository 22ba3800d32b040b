/** Web addresses that merchants give: redirects of buyers, webhook endpoints. Pure. */

/**
 * Whether every program reads a text as the same address: some drop or change control characters, spaces and backslashes, an address
 * without `//` is read as a path, and no server can listen on port 0.
 */
export const isWebAddress = (text: string): boolean =>
  /^https?:\/\/[^/]/i.test(text) && !/[\s\p{Cc}\\]/u.test(text) && URL.canParse(text) && new URL(text).port !== "0"
