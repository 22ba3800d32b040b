/** What is served without a key: health, the OpenAPI document, and pages to read. */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { HttpServerResponse } from "effect/http"
import { SCOPES } from "../key/scopes.ts"
import { CATALOGUE } from "../problem.ts"
import { accessOf, type Declared, openApi } from "./openapi.ts"
import { pathTemplate } from "./routes.ts"

export interface Document {
  readonly response: HttpServerResponse.HttpServerResponse
}

const escapeHtml = (text: string): string =>
  text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]!)

const html = (title: string, body: string): Document => ({
  response: HttpServerResponse.text(
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}code{background:#f2f2f2;padding:.1em .3em;border-radius:3px}h2{margin-top:2rem}small{color:#555}table{border-collapse:collapse;font-size:.85rem}td,th{border:1px solid #ddd;padding:.25rem .5rem;text-align:left;vertical-align:top}</style>
</head><body><h1>${title}</h1>${body}</body></html>`,
    {
      contentType: "text/html; charset=utf-8",
      headers: {
        "content-security-policy":
          "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; img-src 'self' data:; connect-src 'self'",
        "x-content-type-options": "nosniff",
      },
    },
  ),
})

const errorCodes = (): string =>
  Object.entries(CATALOGUE)
    .map(
      ([code, { status, type, explanation }]) =>
        `<h2 id="${code}"><code>${code}</code></h2><p><small>${status} · ${type}</small></p><p>${escapeHtml(explanation)}</p>`,
    )
    .join("")

/** Every endpoint with the keys that may call it. */
const scopeTable = (endpoints: ReadonlyArray<Declared>): string =>
  `<table><thead><tr><th>endpoint</th><th>what it does</th><th>takes a</th></tr></thead><tbody>${endpoints
    .map(({ declaration }) => {
      const where = declaration.sandboxOnly === true ? " (sandbox only)" : ""
      return `<tr><td><code>${declaration.method} ${pathTemplate(declaration.path)}</code></td><td>${escapeHtml(declaration.summary)}${where}</td><td>${escapeHtml(accessOf(declaration))}</td></tr>`
    })
    .join("")}</tbody></table>`

const scopeList = (): string =>
  `<ul>${Object.entries(SCOPES)
    .map(([name, covers]) => `<li><code>${name}</code>: ${escapeHtml(covers)}</li>`)
    .join("")}</ul>`

const reference = (endpoints: ReadonlyArray<Declared>): string => `
<p>The machine-readable document is <a href="/openapi.json">/openapi.json</a>; errors are explained at
<a href="/docs/errors">/docs/errors</a>.</p>
<h2 id="keys">Keys and scopes</h2>
<p>A restricted key is given None, Read or Write of each scope; Write includes Read.</p>${scopeList()}${scopeTable(endpoints)}
<h2 id="reference">Reference</h2><div id="swagger"></div>
<link rel="stylesheet" href="/docs/assets/swagger-ui.css"><script src="/docs/assets/swagger-ui-bundle.js"></script>
<script src="/docs/assets/reference.js"></script>`

/** Starts the reference: a file of its own, so that the page needs no inline script. */
const STARTER = `SwaggerUIBundle({ url: "/openapi.json", dom_id: "#swagger", deepLinking: true, tryItOutEnabled: false, validatorUrl: null })\n`

const assets = createRequire(import.meta.url)

/** A file of the reference's library, served by ourselves: the page names no other host. */
const asset = (name: string, contentType: string): readonly [string, Document] => [
  `/docs/assets/${name}`,
  {
    response: HttpServerResponse.text(readFileSync(assets.resolve(`swagger-ui-dist/${name}`), "utf8"), {
      contentType: `${contentType}; charset=utf-8`,
      headers: { "cache-control": "public, max-age=3600", "x-content-type-options": "nosniff" },
    }),
  },
]

/** By path. Made once: none of it changes while the process runs. */
export const documentation = (endpoints: ReadonlyArray<Declared>, origin: string): ReadonlyMap<string, Document> =>
  new Map([
    ["/healthz", { response: HttpServerResponse.text('{"status":"ok"}', { contentType: "application/json" }) }],
    [
      "/openapi.json",
      {
        response: HttpServerResponse.text(JSON.stringify(openApi(endpoints, origin)), {
          contentType: "application/json",
        }),
      },
    ],
    ["/docs", html("API reference", reference(endpoints))],
    asset("swagger-ui.css", "text/css"),
    asset("swagger-ui-bundle.js", "text/javascript"),
    [
      "/docs/assets/reference.js",
      { response: HttpServerResponse.text(STARTER, { contentType: "text/javascript; charset=utf-8" }) },
    ],
    ["/docs/errors", html("Error codes", errorCodes())],
  ])
