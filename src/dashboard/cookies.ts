/** The dashboard's cookies. `session` holds a session; `visitor` belongs to a browser that is not signed in. Both are secrets that begin with the cell (src/merchants/member/tokens.ts). */
import type { IncomingHttpHeaders } from "node:http"

export type CookieName = "session" | "visitor"

/** Browsers accept the prefix only from HTTPS; it binds the cookie to this host. */
const nameOf = (name: CookieName, origin: string): string => (origin.startsWith("https:") ? `__Host-${name}` : name)

/** Reads a cookie; undefined if it was not sent. */
export const readCookie = (headers: IncomingHttpHeaders, name: CookieName, origin: string): string | undefined => {
  const start = `${nameOf(name, origin)}=`
  return (headers.cookie ?? "")
    .split(";")
    .map((pair) => pair.trim())
    .find((pair) => pair.startsWith(start))
    ?.slice(start.length)
}

const cookie = (name: CookieName, origin: string, value: string, maxAgeS: number): string => {
  const secure = origin.startsWith("https:") ? "; Secure" : ""
  return `${nameOf(name, origin)}=${value}; Path=/; Max-Age=${maxAgeS}; HttpOnly; SameSite=Lax${secure}`
}

const DAYS_30_S = 30 * 86_400
const HOUR_S = 3_600

export const setSession = (value: string, origin: string): string => cookie("session", origin, value, DAYS_30_S)
export const clearSession = (origin: string): string => cookie("session", origin, "", 0)
export const setVisitor = (value: string, origin: string): string => cookie("visitor", origin, value, HOUR_S)
