/** The documents that are served without a key: health, the OpenAPI document, and the reference pages. */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { HttpServerResponse } from "effect/http"
import { CATALOGUE } from "../base/catalogue.ts"
import { pageHeaders, STYLE_SOURCE } from "../pages/headers.ts"
import { type Html, html } from "../pages/html.ts"
import { favicon } from "../pages/icon.ts"
import { layout } from "../pages/layout.ts"
import { startPage } from "../pages/start.ts"
import { SCOPES } from "../security/key/scopes.ts"
import { accessOf, type Declared, type Described, openApi } from "./openapi.ts"
import { pathTemplate } from "./routes.ts"

type Response = HttpServerResponse.HttpServerResponse
export type Document = () => Response

/** Makes a document on its first request, since few processes serve all of them. */
const document = (make: () => Response): Document => {
  let made: Response | undefined
  return () => {
    made ??= make()
    return made
  }
}

const page = (text: () => string, headers: Readonly<Record<string, string>>): Document =>
  document(() => HttpServerResponse.text(text(), { contentType: "text/html; charset=utf-8", headers }))

const file = (text: () => string, contentType: string, headers: Readonly<Record<string, string>> = {}): Document =>
  document(() => HttpServerResponse.text(text(), { contentType, headers }))

/** Headers of files that browsers request often. */
const FOR_A_DAY = { "cache-control": "public, max-age=86400", "x-content-type-options": "nosniff" }

/** Search engines must index nothing: the addresses of buyers' pages are secrets, and the other pages are for engineers. */
const ROBOTS = "User-agent: *\nDisallow: /\n"

const reading = (title: string, body: Html): string =>
  layout(
    { business: null, simulated: false, title, width: "reading", script: false },
    html`<h1>${title}</h1>
${body}`,
  )

/** Renders text, with the parts between backticks as code. */
const withCode = (text: string): ReadonlyArray<string | Html> =>
  text.split("`").map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))

const errorCode = ([code, { status, type, explanation }]: [string, (typeof CATALOGUE)[keyof typeof CATALOGUE]]): Html =>
  html`<h2 class="entry" id="${code}"><code>${code}</code><small>${status} · ${type}</small></h2><p>${withCode(explanation)}</p>
`

export const errorCodesPage = (): string =>
  reading(
    "Error codes",
    html`<p>Every refusal has one of these codes in <code>error.code</code>, and its address here in <code>error.doc_url</code>.</p>
<p><a href="/docs">API reference</a></p>
${Object.entries(CATALOGUE).map(errorCode)}`,
  )

const scopeRow = ({ declaration }: Declared): Html =>
  html`<tr><td><code>${declaration.method} ${pathTemplate(declaration.path)}</code></td><td>${declaration.summary}${
    declaration.sandboxOnly === true && " (sandbox only)"
  }</td><td>${accessOf(declaration)}</td></tr>`

/** The table of endpoints with the keys that may call them. */
const scopeTable = (endpoints: ReadonlyArray<Declared>): Html =>
  html`<div class="scroll" tabindex="0" role="region" aria-label="Endpoints and the keys that may call them"><table><thead><tr><th>endpoint</th><th>what it does</th><th>takes a</th></tr></thead><tbody>${endpoints.map(scopeRow)}</tbody></table></div>`

const scopeList = (): Html =>
  html`<ul>${Object.entries(SCOPES).map(([name, covers]) => html`<li><code>${name}</code>: ${covers}</li>`)}</ul>`

const referencePage = (endpoints: ReadonlyArray<Declared>): string =>
  reading(
    "API reference",
    html`<p class="small">See also: <a href="#keys">keys and scopes</a>, <a href="/docs/errors">error codes</a>, the <a href="/openapi.json">OpenAPI document</a>.</p>
<div id="swagger" class="light"></div>
<noscript><p>The reference is shown by a script. Without scripts, read the <a href="/openapi.json">OpenAPI document</a>.</p></noscript>
<h2 id="keys">Keys and scopes</h2>
<p>A restricted key is given None, Read or Write of each scope; Write includes Read.</p>${scopeList()}${scopeTable(endpoints)}
<link rel="stylesheet" href="/docs/assets/swagger-ui.css"><script src="/docs/assets/swagger-ui-bundle.js"></script>
<script src="/docs/assets/reference.js"></script>`,
  )

/** Headers that let the reference page load its library's files from this host. */
const REFERENCE_HEADERS = {
  "content-security-policy": `default-src 'none'; style-src 'self' ${STYLE_SOURCE}; script-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'`,
  "x-content-type-options": "nosniff",
}

/** Starts the reference. It is a separate file, so that the page needs no inline script. */
const STARTER = `SwaggerUIBundle({ url: "/openapi.json", dom_id: "#swagger", deepLinking: true, tryItOutEnabled: false, validatorUrl: null })\n`

const assets = createRequire(import.meta.url)

/** A file of the reference's library. We serve it ourselves, so that the page loads nothing from other hosts. */
const asset = (name: string, contentType: string): readonly [string, Document] => [
  `/docs/assets/${name}`,
  file(() => readFileSync(assets.resolve(`swagger-ui-dist/${name}`), "utf8"), `${contentType}; charset=utf-8`, {
    "cache-control": "public, max-age=3600",
    "x-content-type-options": "nosniff",
  }),
]

/** The documents by path. They do not change while the process runs. */
export const documentation = (
  described: Described,
  origin: string,
  demoKey: string | undefined,
): ReadonlyMap<string, Document> =>
  new Map([
    ["/", page(() => startPage({ origin, demoKey: demoKey ?? null }), pageHeaders({}))],
    ["/healthz", file(() => '{"status":"ok"}', "application/json")],
    ["/openapi.json", file(() => JSON.stringify(openApi(described, origin)), "application/json")],
    ["/docs", page(() => referencePage(described.endpoints), REFERENCE_HEADERS)],
    asset("swagger-ui.css", "text/css"),
    asset("swagger-ui-bundle.js", "text/javascript"),
    ["/docs/assets/reference.js", file(() => STARTER, "text/javascript; charset=utf-8")],
    ["/docs/errors", page(errorCodesPage, pageHeaders({}))],
    ["/robots.txt", file(() => ROBOTS, "text/plain; charset=utf-8", FOR_A_DAY)],
    [
      "/favicon.ico",
      document(() => HttpServerResponse.uint8Array(favicon(), { contentType: "image/x-icon", headers: FOR_A_DAY })),
    ],
  ])
