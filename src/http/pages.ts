/** What is served without a key: health, the OpenAPI document, and pages to read. */
import { HttpServerResponse } from "effect/http"
import { CATALOGUE } from "../problem.ts"
import type { Endpoint } from "./Endpoint.ts"
import { openApi } from "./openapi.ts"
import { pathTemplate } from "./routes.ts"

export interface Page {
  readonly response: HttpServerResponse.HttpServerResponse
}

const escapeHtml = (text: string): string =>
  text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]!)

const html = (title: string, body: string): Page => ({
  response: HttpServerResponse.text(
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}code{background:#f2f2f2;padding:.1em .3em;border-radius:3px}h2{margin-top:2rem}small{color:#555}</style>
</head><body><h1>${title}</h1>${body}</body></html>`,
    {
      contentType: "text/html; charset=utf-8",
      headers: {
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
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

const reference = (endpoints: ReadonlyArray<Endpoint>): string =>
  `<p>The machine-readable document is <a href="/openapi.json">/openapi.json</a>; errors are explained at <a href="/docs/errors">/docs/errors</a>.</p>${endpoints
    .map(
      ({ declaration }) =>
        `<h2><code>${declaration.method} ${pathTemplate(declaration.path)}</code></h2><p>${escapeHtml(declaration.summary)}${declaration.sandboxOnly === true ? " (sandbox only)" : ""}.</p>`,
    )
    .join("")}`

/** By path. Made once: none of it changes while the process runs. */
export const documentation = (endpoints: ReadonlyArray<Endpoint>, origin: string): ReadonlyMap<string, Page> =>
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
    ["/docs/errors", html("Error codes", errorCodes())],
  ])
