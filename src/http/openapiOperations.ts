/** The shared parts of operations without a key in the OpenAPI document: their server, headers and refusals. */
import type { Json } from "../base/json.ts"
import { header } from "./openapiComponents.ts"

/** Headers of operations without a rate limit: health, and signed callbacks. */
export const UNLIMITED: Json = { "X-Request-Id": header("RequestId") }
export const HEADERS: Json = {
  ...UNLIMITED,
  "RateLimit-Limit": header("RateLimitLimit"),
  "RateLimit-Remaining": header("RateLimitRemaining"),
  "RateLimit-Reset": header("RateLimitReset"),
}

export const plain = (description: string, type: string, schema: Json, headers: Json = HEADERS): Json => ({
  description,
  headers,
  content: { [type]: { schema } },
})

export const refused = (codes: string): Json =>
  plain(
    `Codes: ${codes}`,
    "application/json",
    { $ref: "#/components/schemas/error" },
    /rate_limited|too_many_in_flight|service_unavailable/.test(codes)
      ? { ...HEADERS, "Retry-After": header("RetryAfter") }
      : HEADERS,
  )

export interface Described {
  readonly id: string
  readonly summary: string
  readonly tag: string
  readonly responses: Readonly<Record<string, Json>>
  readonly parameters?: ReadonlyArray<Json>
  readonly body?: Json
  /** An example of the body. */
  readonly example?: Json
}

export const operation = (
  origin: string,
  { id, summary, tag, responses, parameters = [], body, example }: Described,
): Json => ({
  operationId: id,
  summary,
  tags: [tag],
  servers: [{ url: origin }],
  security: [],
  parameters,
  ...(body === undefined
    ? {}
    : {
        requestBody: {
          content: { "application/json": { schema: body, ...(example === undefined ? {} : { example }) } },
        },
      }),
  responses: { ...responses, "408": refused("request_timeout") },
})

export const text: Json = { type: "string" }
export const inPath = (name: string, description: string): Json => ({
  name,
  in: "path",
  required: true,
  description,
  schema: text,
})
