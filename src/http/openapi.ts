/** The OpenAPI 3.1 document, made from the endpoints' declarations. */
import { Schema, SchemaAST } from "effect"
import type { Json } from "../json.ts"
import { CATALOGUE, type ProblemCode } from "../problem.ts"
import { levelOf } from "./access.ts"
import { type Declaration, takesCell } from "./Endpoint.ts"
import { withoutKey } from "./openapiWithoutKey.ts"
import { REFERENCE } from "./parameters.ts"
import { exampleId, exampleOf, nameOf } from "./response.ts"
import { pathParameters, pathTemplate } from "./routes.ts"

/** What documents are made from. */
export interface Declared {
  readonly declaration: Declaration
}

const EVERYWHERE: ReadonlyArray<ProblemCode> = [
  "https_required",
  "key_missing",
  "key_invalid",
  "key_revoked",
  "rate_limited",
  "too_many_in_flight",
  "parameter_unknown",
  "request_malformed",
  "request_timeout",
  "internal_error",
  "service_unavailable",
]
const WITH_ACCOUNT_KEY: ReadonlyArray<ProblemCode> = ["key_expired", "key_environment_mismatch", "live_access_required"]
const OF_READS: ReadonlyArray<ProblemCode> = ["parameter_invalid", "query_too_slow"]
const OF_WRITES: ReadonlyArray<ProblemCode> = [
  "content_type_invalid",
  "json_invalid",
  "request_too_large",
  "parameter_missing",
  "parameter_invalid",
  "reset_in_progress",
  "lock_timeout",
  "account_moving",
]
const WITH_KEY: ReadonlyArray<ProblemCode> = [
  "idempotency_key_reused",
  "idempotency_request_in_progress",
  "idempotency_response_not_kept",
]

/** The refusals of keys that may not call an endpoint. */
const accessCodes = ({ access }: Declaration): ReadonlyArray<ProblemCode> => {
  if (access === "public") return []
  if (access === "administrator")
    return ["administrator_key_required", "secret_key_required", "key_environment_mismatch"]
  if (access === "publishable") return WITH_ACCOUNT_KEY
  if (access === "secret" || access === "any") return [...WITH_ACCOUNT_KEY, "secret_key_required"]
  return [...WITH_ACCOUNT_KEY, "secret_key_required", "insufficient_scope"]
}

/** A schema as JSON Schema; one that has a name stands in the document's definitions. */
const jsonSchema = (schema: Schema.Top): Json => {
  const { schema: own, definitions } = Schema.toJsonSchemaDocument(schema)
  const name = SchemaAST.resolveIdentifier(schema.ast)
  return (name === undefined ? own : (definitions[name] ?? own)) as Json
}

/** The examples stand with the responses. */
const withoutExamples = ({ examples: _, ...schema }: Json): Json => schema

/** Request objects refuse what they don't know; responses may grow. */
const closed = (schema: Json): Json => {
  if (Array.isArray(schema.anyOf)) return { ...schema, anyOf: (schema.anyOf as ReadonlyArray<Json>).map(closed) }
  const properties = schema.properties as Readonly<Record<string, Json>> | undefined
  const inner =
    properties === undefined
      ? {}
      : { properties: Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, closed(value)])) }
  return schema.type === "object" && properties !== undefined
    ? { ...schema, ...inner, additionalProperties: false }
    : schema
}

/** Whether a parameter of a body says what another object is. */
const refersToObjects = ({ body }: Declaration): boolean =>
  body !== undefined &&
  Object.values((jsonSchema(body).properties ?? {}) as Json).some((value) => JSON.stringify(value).includes(REFERENCE))

/** The statuses of a code: an object that is missing is 404 in the path, and 400 in the body (decision B3). */
const statusesOf = (declaration: Declaration, code: ProblemCode): ReadonlyArray<number> =>
  code !== "resource_missing"
    ? [CATALOGUE[code].status]
    : [
        ...(declaration.path.includes(":") ? [CATALOGUE[code].status] : []),
        ...(refersToObjects(declaration) ? [400] : []),
      ]

/** What no request without a key is refused for. */
const isOfKeys = (code: ProblemCode): boolean => code.startsWith("key_")

export const codesOf = (declaration: Declaration): ReadonlyArray<ProblemCode> => [
  ...(declaration.access === "public" ? EVERYWHERE.filter((code) => !isOfKeys(code)) : EVERYWHERE),
  ...accessCodes(declaration),
  ...(declaration.vertical === undefined ? [] : ["feature_unavailable" as const]),
  ...(declaration.method === "GET" ? OF_READS : OF_WRITES),
  ...(declaration.method === "POST" ? WITH_KEY : []),
  ...(declaration.codes ?? []),
  // A clock that is broken refuses as one that moves does.
  ...(declaration.codes?.includes("test_clock_advancing") && !declaration.codes.includes("test_clock_not_ready")
    ? ["test_clock_not_ready" as const]
    : []),
]

const header = (name: string): Json => ({ $ref: `#/components/headers/${name}` })

/** Headers of every response to a known key; of a write those that say what it counted; of a POST whether it is a replay. */
const headersOf = ({ method, access }: Declaration): Json => ({
  "X-Request-Id": header("RequestId"),
  "RateLimit-Limit": header("RateLimitLimit"),
  "RateLimit-Remaining": header("RateLimitRemaining"),
  "RateLimit-Reset": header("RateLimitReset"),
  ...(method === "GET" || access === "public"
    ? {}
    : {
        "X-Service-Billable": header("ServiceBillable"),
        "X-Service-Write-Usage": header("ServiceWriteUsage"),
        "X-Service-Write-Limit": header("ServiceWriteLimit"),
        "X-Service-Usage-Period-End": header("ServiceUsagePeriodEnd"),
      }),
  ...(method === "POST" ? { "Idempotent-Replayed": header("IdempotentReplayed") } : {}),
})

/** Refusals that come before anything else is known. */
const UNREAD = new Set([408, 431])
/** Headers of what the key says: a refusal of the key has none. */
const OF_THE_KEY: ReadonlySet<string> = new Set([
  "X-Service-Write-Usage",
  "X-Service-Write-Limit",
  "X-Service-Usage-Period-End",
])

const refusalHeaders = (declaration: Declaration, status: number): Json => {
  const all = headersOf(declaration)
  if (UNREAD.has(status)) return { "X-Request-Id": all["X-Request-Id"] }
  return status === 401 ? Object.fromEntries(Object.entries(all).filter(([name]) => !OF_THE_KEY.has(name))) : all
}

/** A refusal as the document shows it: the first of its codes. */
const errorExample = (code: ProblemCode): Json => ({
  success: false,
  error: {
    type: CATALOGUE[code].type,
    code,
    message: CATALOGUE[code].explanation,
    param: null,
    request_id: exampleId("request"),
    doc_url: `https://billing.example/docs/errors#${code}`,
  },
})

const failures = (declaration: Declaration): Json => {
  const byStatus = new Map<number, Array<ProblemCode>>()
  for (const code of codesOf(declaration))
    for (const status of statusesOf(declaration, code)) byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  return Object.fromEntries(
    [...byStatus]
      .sort(([a], [b]) => a - b)
      .map(([status, codes]) => [
        String(status),
        {
          description: `Codes: ${codes.join(", ")}`,
          headers: {
            ...refusalHeaders(declaration, status),
            ...(status === 429 || status === 503 ? { "Retry-After": header("RetryAfter") } : {}),
          },
          content: {
            "application/json": { schema: { $ref: "#/components/schemas/error" }, example: errorExample(codes[0]!) },
          },
        },
      ]),
  )
}

const queryParameters = (declaration: Declaration): ReadonlyArray<Json> => {
  const schema = declaration.query === undefined ? {} : jsonSchema(declaration.query)
  const properties = (schema.properties ?? {}) as Readonly<Record<string, Json>>
  return [
    ...Object.entries(properties).map(([name, value]) =>
      name === "metadata"
        ? {
            name,
            in: "query",
            style: "deepObject",
            explode: true,
            description: "One metadata key to filter by: metadata[key]=value",
            schema: value,
          }
        : { name, in: "query", required: false, description: value.description ?? name, schema: value },
    ),
    ...(declaration.expand === undefined
      ? []
      : [
          {
            name: "expand[]",
            in: "query",
            description: "Fields to show as objects, at most 4",
            schema: { type: "array", maxItems: 4, items: { type: "string", enum: declaration.expand } },
          },
        ]),
  ]
}

const successSchema = (declaration: Declaration): Json => {
  const object = { $ref: `#/components/schemas/${nameOf(declaration.success)}` }
  const data = declaration.list === true ? { type: "array", items: object } : object
  const meta = { $ref: "#/components/schemas/list_meta" }
  return {
    type: "object",
    properties: { success: { const: true }, data, ...(declaration.list === true ? { meta } : {}) },
    required: ["success", "data", ...(declaration.list === true ? ["meta"] : [])],
  }
}

const successExample = (declaration: Declaration): Json => {
  const data = exampleOf(declaration.success)
  return declaration.list === true
    ? { success: true, data: [data], meta: { has_more: false, next_cursor: null, limit: 20 } }
    : { success: true, data }
}

/** Whose keys may call it, in words. */
export const accessOf = (declaration: Declaration): string => {
  const { access } = declaration
  if (access === "public") return "request without a key"
  if (access === "administrator") return "administrator key"
  if (access === "secret") return "secret key"
  if (access === "any") return "secret or restricted key"
  if (access === "publishable") return "any key of the account; from browsers, the publishable key's origins"
  return `secret key, or restricted key with ${access}:${levelOf(declaration)}`
}

/** The same as a sentence. */
const needOf = (declaration: Declaration): string => {
  const who = accessOf(declaration)
  if (declaration.access === "public") return "Needs no key."
  return `Takes ${who.startsWith("any") ? "" : who.startsWith("a") ? "an " : "a "}${who}.`
}

const operationId = ({ method, path }: Declaration): string =>
  `${method.toLowerCase()}${path
    .split("/")
    .filter(Boolean)
    .map((part) => part.replace(":", "by-").replace(/(^|[-_])(\w)/g, (_, __, letter: string) => letter.toUpperCase()))
    .join("")}`

const sandbox = (origin: string): Json => ({ url: `${origin}/sandbox/v1`, description: "Sandbox" })

const operation = (declaration: Declaration, origin: string): Json => ({
  operationId: operationId(declaration),
  summary: declaration.summary,
  tags: [declaration.path.split("/")[1]],
  description: `${needOf(declaration)}${declaration.sandboxOnly === true ? " Sandbox only." : ""}${declaration.vertical === undefined ? "" : ` For accounts whose business type is ${declaration.vertical}.`}`,
  ...(declaration.access === "public" ? { security: [] } : {}),
  ...(declaration.sandboxOnly === true ? { servers: [sandbox(origin)] } : {}),
  parameters: [
    ...pathParameters(declaration.path).map((name) => ({
      name,
      in: "path",
      required: true,
      schema: { type: "string", maxLength: 64 },
    })),
    ...(declaration.method === "POST" ? [{ $ref: "#/components/parameters/IdempotencyKey" }] : []),
    ...(takesCell(declaration) ? [{ $ref: "#/components/parameters/Cell" }] : []),
    ...queryParameters(declaration),
  ],
  ...(declaration.body === undefined
    ? {}
    : {
        requestBody: {
          required: Array.isArray(jsonSchema(declaration.body).required),
          content: {
            "application/json": { schema: closed(jsonSchema(declaration.body)), example: declaration.example },
          },
        },
      }),
  responses: {
    [declaration.status]: {
      description: "Success",
      headers: headersOf(declaration),
      content: { "application/json": { schema: successSchema(declaration), example: successExample(declaration) } },
    },
    ...failures(declaration),
  },
})

const signed = (name: string, description: string): Json => ({
  name,
  in: "header",
  required: true,
  description,
  schema: { type: "string" },
})

/** What is sent to webhook endpoints (decisions I1 to I3). */
const DELIVERY: Json = {
  operationId: "deliverEvent",
  summary: "An event is delivered to a webhook endpoint that is enabled for its type",
  description:
    "Signed as Standard Webhooks say: check the signature over `webhook-id.webhook-timestamp.body` with the endpoint's secret, byte for byte. Answer with any 2xx within 15 seconds; else it is sent again with the same ID after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h. Events of one object come in order of creation, unless an earlier one is in retry.",
  tags: ["webhook-endpoints"],
  security: [],
  parameters: [
    signed("webhook-id", "The event's ID: the same in each try, so that what comes twice is known by it"),
    signed("webhook-timestamp", "When this try was signed, in seconds since 1970"),
    signed("webhook-signature", "v1,<base64 HMAC-SHA256>, one for each secret that is live, with spaces between"),
  ],
  requestBody: {
    required: true,
    content: { "application/json": { schema: { $ref: "#/components/schemas/event" } } },
  },
  responses: {
    "2XX": { description: "It arrived" },
    "410": { description: "The endpoint is gone: it is disabled, and gets nothing more" },
    default: {
      description: "It is sent again, unless it was the last try, no earlier than a Retry-After of up to 10 h says",
    },
  },
}

export const openApi = (endpoints: ReadonlyArray<Declared>, origin: string): Json => {
  const paths: Record<string, Record<string, Json>> = {}
  for (const { declaration } of endpoints) {
    const path = pathTemplate(declaration.path)
    paths[path] = { ...paths[path], [declaration.method.toLowerCase()]: operation(declaration, origin) }
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Recurring Billing API",
      version: "1.0.0",
      description: "Plans, customers, subscriptions and charges in NGN. Amounts are integers in kobo.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [sandbox(origin), { url: `${origin}/v1`, description: "Live" }],
    security: [{ apiKey: [] }],
    tags: [
      ...[...new Set(endpoints.map(({ declaration }) => declaration.path.split("/")[1]!))].map((name) => ({
        name,
        description: `Everything under /${name}`,
      })),
      { name: "health", description: "What load balancers ask" },
      {
        name: "pages",
        description: "Pages on which buyers pay, as a program calls them: with Accept: application/json",
      },
      { name: "callbacks", description: "What payment rails call" },
    ],
    paths: { ...paths, ...withoutKey(origin) },
    webhooks: { event: { post: DELIVERY } },
    components: {
      securitySchemes: { apiKey: { type: "http", scheme: "bearer", description: "Authorization: Bearer <API_KEY>" } },
      headers: {
        RequestId: { description: "The request's ID; errors carry it as request_id", schema: { type: "string" } },
        RateLimitLimit: { description: "Requests that a burst may have", schema: { type: "integer" } },
        RateLimitRemaining: { description: "Requests that may follow at once", schema: { type: "integer" } },
        RateLimitReset: { description: "Seconds until a whole burst may follow again", schema: { type: "integer" } },
        RetryAfter: {
          description: "Seconds to wait before trying again; of 429 with rate_limited alone",
          schema: { type: "integer" },
        },
        ServiceBillable: {
          description: "Whether the request counted",
          schema: { type: "string", enum: ["true", "false"] },
        },
        ServiceWriteUsage: { description: "Writes counted this month, this one included", schema: { type: "integer" } },
        ServiceWriteLimit: { description: "Writes that the plan includes, or unlimited", schema: { type: "string" } },
        ServiceUsagePeriodEnd: { description: "When the month ends", schema: { type: "string", format: "date-time" } },
        IdempotentReplayed: {
          description: "true where the response is that of an earlier request with the same Idempotency-Key",
          schema: { type: "string", enum: ["true"] },
        },
      },
      parameters: {
        IdempotencyKey: {
          name: "Idempotency-Key",
          in: "header",
          description: "A retry with the same key and body gets the first response (kept 24 hours)",
          schema: { type: "string", maxLength: 255 },
        },
        Cell: {
          name: "cell",
          in: "query",
          description:
            "The cell that the account lives in, where there is more than one: neither the caller's key nor the address says it",
          schema: { type: "string", pattern: "^[0-9A-Za-z]{2}$" },
        },
      },
      schemas: {
        ...Object.fromEntries(
          endpoints.map(({ declaration: { success } }) => [nameOf(success), withoutExamples(jsonSchema(success))]),
        ),
        list_meta: {
          type: "object",
          properties: {
            has_more: { type: "boolean" },
            next_cursor: { type: ["string", "null"] },
            limit: { type: "integer" },
          },
          required: ["has_more", "next_cursor", "limit"],
        },
        error: {
          type: "object",
          properties: {
            success: { const: false },
            error: {
              type: "object",
              properties: {
                type: { type: "string", enum: [...new Set(Object.values(CATALOGUE).map(({ type }) => type))] },
                code: { type: "string", enum: Object.keys(CATALOGUE) },
                message: { type: "string" },
                failure_code: { type: "string", description: "Of card_declined: why" },
                param: { type: ["string", "null"] },
                request_id: { type: "string" },
                doc_url: { type: "string", format: "uri" },
              },
              required: ["type", "code", "message", "param", "request_id", "doc_url"],
            },
          },
          required: ["success", "error"],
        },
      },
    },
  }
}
