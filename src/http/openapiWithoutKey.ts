/** The part of the OpenAPI document about operations without a key: health, invoice links, pages on which buyers pay, callbacks. */
import type { Json } from "../base/json.ts"
import { callbacks } from "./openapiCallbacks.ts"
import { type Described, operation, plain, refused, text, UNLIMITED } from "./openapiOperations.ts"
import { pages } from "./openapiPages.ts"

const status: Json = { type: "object", properties: { status: text }, required: ["status"] }

/** Describes operations without a key, by path. Their server is `origin`, outside of both environments. */
export const withoutKey = (origin: string, plan: Json): Readonly<Record<string, Json>> => {
  const get = (described: Described): Json => ({ get: operation(origin, described) })
  return {
    "/healthz": get({
      id: "getHealthz",
      summary: "Whether the process is up",
      tag: "health",
      responses: { "200": plain("It is up", "application/json", status, UNLIMITED) },
    }),
    "/readyz": get({
      id: "getReadyz",
      summary: "Whether requests can be served",
      tag: "health",
      responses: {
        "200": plain(
          "The database is migrated and takes writes, and the clocks agree",
          "application/json",
          status,
          UNLIMITED,
        ),
        "503": plain(
          "The database cannot be reached, is not migrated or takes no writes, or its clock and this server's disagree: status names the reason",
          "application/json",
          status,
          UNLIMITED,
        ),
      },
    }),
    "/invoices/{id}.pdf": get({
      id: "getInvoicePdf",
      summary: "The PDF of a service invoice, at the signed link in its pdf_url",
      tag: "invoices",
      parameters: [
        { name: "id", in: "path", required: true, schema: text },
        ...["expires", "signature"].map((name) => ({ name, in: "query", required: true, schema: text })),
      ],
      responses: {
        "200": plain("The document", "application/pdf", { type: "string", contentEncoding: "binary" }),
        "403": refused("link_invalid"),
        "429": refused("rate_limited"),
      },
    }),
    ...pages(origin, plan),
    ...callbacks(origin),
  }
}
