/** Reads the pages' inline style and script once, and builds the headers that let a browser run only these. */
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { type Html, ownMarkup } from "./html.ts"

const ownFile = (name: string): string => readFileSync(join(import.meta.dirname, name), "utf8")

/** Removes indentation and comments, which have lines of their own: a page is one request, often over a slow connection. */
export const small = (text: string): string =>
  text
    .replace(/\/\*.*?\*\//gs, "")
    .replace(/^\s*\/\/.*$/gm, "")
    .replace(/^\s+/gm, "")
    .trim()

/** The design system that all pages share. */
export const STYLE = small(ownFile("style.css"))
const SCRIPT = small(ownFile("browser.js"))

export const styleElement: Html = ownMarkup(`<style>${STYLE}</style>`)
export const scriptElement: Html = ownMarkup(`<script type="module">${SCRIPT}</script>`)

const hashOf = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`

/** The policy source of the pages' style, for pages that have other sources too. */
export const STYLE_SOURCE = hashOf(STYLE)

const SCHEMES: ReadonlySet<string> = new Set(["https:", "http:"])

const originOnly = (origin: string): string => {
  if (SCHEMES.has(origin)) return origin
  if (!URL.canParse(origin) || new URL(origin).origin !== origin) throw new Error(`${origin} is no origin.`)
  return origin
}

const COMMON = {
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "cross-origin-opener-policy": "same-origin",
  "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
}

/**
 * Returns the headers of a page. `formActions`: further origins, or a scheme, that its form may end at. Browsers check every redirect of a
 * form, such as to a merchant's page after the payment and on from there.
 */
export const pageHeaders = ({
  formActions = [],
}: {
  readonly formActions?: ReadonlyArray<string>
}): Readonly<Record<string, string>> => ({
  "content-security-policy": [
    "default-src 'none'",
    `style-src ${STYLE_SOURCE}`,
    `script-src ${hashOf(SCRIPT)}`,
    "img-src data:",
    "connect-src 'self'",
    `form-action ${["'self'", ...formActions.map(originOnly)].join(" ")}`,
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; "),
  ...COMMON,
})

/**
 * The headers of the dashboard's pages: style and scripts are files of this host. Its forms send their origin, which the policy of the
 * buyers' pages hides.
 */
export const DASHBOARD_HEADERS: Readonly<Record<string, string>> = {
  ...COMMON,
  "content-security-policy":
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "referrer-policy": "same-origin",
  "permissions-policy":
    "camera=(), microphone=(), geolocation=(), payment=(), publickey-credentials-get=(self), publickey-credentials-create=(self)",
}
