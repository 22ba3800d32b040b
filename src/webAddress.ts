/** Addresses that merchants give: where buyers go on, where webhooks are sent. Pure. */

/**
 * Whether a text is an address that everybody reads alike: control characters, spaces and backslashes are dropped or
 * changed by whoever reads one, and one without `//` is taken as a path.
 */
export const isWebAddress = (text: string): boolean =>
  /^https?:\/\/[^/]/i.test(text) && !/[\s\p{Cc}\\]/u.test(text) && URL.canParse(text)
