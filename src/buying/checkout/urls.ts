/** Checks and builds the addresses that buyers go to after a checkout page (decision G4). Pure. */
import { Effect } from "effect"
import { invalid, type Problem } from "../../base/problem.ts"
import { isLoopback } from "../../config/settings.ts"

/** The session's ID replaces this in a `success_url`. */
const PLACEHOLDER = "{CHECKOUT_SESSION_ID}"

/** Refuses an address that buyers cannot be sent to. Plain http is allowed for a developer's own machine, in the sandbox. */
export const checkPageUrl = (param: string, text: string, livemode: boolean): Effect.Effect<void, Problem> => {
  const { protocol, hostname, username, password } = new URL(text)
  if (username !== "" || password !== "")
    return Effect.fail(invalid(param, `${param} must contain no user name or password.`))
  if (protocol === "https:" || (!livemode && isLoopback(hostname))) return Effect.void
  const where = livemode ? "" : " (http:// for localhost only)"
  return Effect.fail(invalid(param, `${param} must begin with https://${where}.`))
}

/** Encodes an address for a header, which must be ASCII. An ASCII address stays unchanged. */
const asHeader = (url: string): string => (/^[\x21-\x7e]*$/.test(url) ? url : new URL(url).href)

/** Returns the `success_url` with the session's ID in its placeholder, or added to its query. */
export const successUrl = (text: string, session: string): string => {
  if (text.includes(PLACEHOLDER)) return asHeader(text.replaceAll(PLACEHOLDER, session))
  const [address, ...fragment] = text.split("#")
  const joint = !address!.includes("?") ? "?" : /[?&]$/.test(address!) ? "" : "&"
  return asHeader([`${address}${joint}session_id=${session}`, ...fragment].join("#"))
}

/**
 * Returns where a page's form may end: the merchant's page and its redirects, which browsers check too (shop.example to www.shop.example,
 * say). A developer's own machine is named, since it has no https.
 */
export const formActions = (text: string): ReadonlyArray<string> => {
  const { protocol, origin, hostname } = new URL(text)
  if (protocol === "https:") return [protocol]
  // A policy cannot name an IPv6 address.
  return hostname.startsWith("[") ? ["https:", protocol] : ["https:", origin]
}
