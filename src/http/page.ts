/** Responses to browsers: pages, and refusals as pages. The same address serves programs (decision G8). */
import type { IncomingHttpHeaders } from "node:http"
import type { Problem } from "../base/problem.ts"
import { pageHeaders } from "../pages/headers.ts"
import { messagePage } from "../pages/says.ts"
import type { PublicResponse, Refused } from "./publicRoutes.ts"

export const isJson = (type: string | undefined): boolean => /^application\/json\s*(;|$)/i.test(type ?? "")

/** Returns the quality of a type in an Accept header, from 0 to 1; undefined if the header does not name it. */
const wantedAs = (accept: string, type: string): number | undefined => {
  const named = accept
    .toLowerCase()
    .split(",")
    .map((range) => range.split(";").map((part) => part.trim()))
    .find(([name]) => name === type)
  const quality = Number(named?.find((part) => part.startsWith("q="))?.slice(2) ?? 1)
  return named === undefined ? undefined : Number.isFinite(quality) ? quality : 1
}

/** Whether the caller is a program: it prefers JSON to a page, or it sends JSON and names neither. */
export const wantsJson = (headers: IncomingHttpHeaders): boolean => {
  const accept = headers.accept ?? ""
  const [json, document] = [wantedAs(accept, "application/json"), wantedAs(accept, "text/html")]
  if (json === undefined && document === undefined) return isJson(headers["content-type"])
  return (json ?? 0) > (document ?? 0)
}

/** Whether the caller accepts pages and does not prefer JSON. A caller that names neither is treated as a program. */
export const isBrowser = (headers: IncomingHttpHeaders): boolean => {
  const accept = headers.accept ?? ""
  return (wantedAs(accept, "text/html") ?? 0) > (wantedAs(accept, "application/json") ?? 0)
}

/** Makes a page. `leadsTo`: origins to which we may redirect its form. */
export const page = (status: number, document: string, leadsTo: ReadonlyArray<string> = []): PublicResponse => ({
  status,
  contentType: "text/html; charset=utf-8",
  body: Buffer.from(document),
  headers: pageHeaders({ formActions: leadsTo }),
})

/** Redirects a browser after a form: it continues by GET, so that going back or reloading submits nothing. */
export const seeOther = (location: string): PublicResponse => ({
  status: 303,
  contentType: "text/plain; charset=utf-8",
  body: Buffer.from(""),
  headers: { ...pageHeaders({}), location },
})

const TITLES: Readonly<Partial<Record<Problem["code"], string>>> = {
  rate_limited: "Too many requests",
  too_many_in_flight: "Too many requests",
  too_many_attempts: "Too many attempts",
  resource_missing: "This link leads nowhere",
  link_invalid: "This link is not valid",
  live_access_required: "No payments can be made here",
  outcome_unknown: "We do not know yet whether this was done",
}

/** Shows a browser that an address has no page (decision A13). */
export const missingPage = ({ refusal, requestId }: Refused): PublicResponse | undefined =>
  refusal.code === "route_missing"
    ? page(
        refusal.status,
        messagePage({
          business: null,
          simulated: false,
          tone: "warning",
          title: "There is no page here",
          paragraphs: [
            "Look for a mistake in the address, or open the link again from where you have it.",
            "Programs call the API with a key: the reference is at /docs.",
          ],
          action: null,
          requestId,
        }),
      )
    : undefined

/** Codes with messages that do not help a buyer. */
const FOR_PROGRAMS: ReadonlyArray<Problem["code"]> = ["internal_error", "outcome_unknown"]

/** Whether the buyer may load the page again after this refusal. */
const isPassing = ({ code, status }: Problem): boolean =>
  status >= 500 || code.startsWith("rate") || code === "too_many_in_flight"

/** Returns the address of a page, from the address of any part of it. */
const pageOf = (path: string): string | undefined => /^\/(?:checkout|pay|save)\/[^/]+/.exec(path)?.[0]

/**
 * Shows a browser a refusal as a page; a program gets the envelope. The payment page itself shows the state of a payment that was
 * under way.
 */
export const refusedPage = ({ refusal, requestId, headers, path }: Refused): PublicResponse | undefined => {
  if (wantsJson(headers)) return undefined
  const isOurs = refusal.status >= 500
  const back = refusal.code === "resource_missing" ? undefined : pageOf(path)
  const advice = isPassing(refusal)
    ? ["If you have just paid, look at the page again to see what became of it: you are not charged twice."]
    : []
  const document = messagePage({
    business: null,
    simulated: false,
    tone: isOurs ? "error" : "warning",
    title: TITLES[refusal.code] ?? (isOurs ? "Something went wrong on our side" : "This cannot be done"),
    paragraphs: [...(FOR_PROGRAMS.includes(refusal.code) ? [] : [refusal.message]), ...advice],
    action: back === undefined ? null : { label: "Back to the page", href: back },
    requestId,
  })
  return page(refusal.status, document)
}
