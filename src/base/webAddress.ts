/** Addresses that merchants give: where buyers go on, where webhooks are sent. Pure. */

/**
 * Whether a text is an address that everybody reads alike: control characters, spaces and backslashes are dropped or
 * changed by whoever reads one, one without `//` is taken as a path, and nobody answers at port 0.
 */
export const isWebAddress = (text: string): boolean =>
  /^https?:\/\/[^/]/i.test(text) && !/[\s\p{Cc}\\]/u.test(text) && URL.canParse(text) && new URL(text).port !== "0"
