/** The OpenAPI 3.1 document, made from the endpoints' declarations. */
import { Schema } from "effect"
import { CATALOGUE, type ProblemCode } from "../problem.ts"
import type { Declaration, Endpoint, Json } from "./Endpoint.ts"
import { OBJECTS } from "./objects.ts"
import { pathParameters, pathTemplate } from "./routes.ts"

const EVERYWHERE: ReadonlyArray<ProblemCode> = [
  "https_required",
  "key_missing",
  "key_invalid",
  "key_revoked",
  "key_expired",
  "key_environment_mismatch",
  "live_access_required",
  "secret_key_required",
  "insufficient_scope",
  "parameter_unknown",
  "internal_error",
  "service_unavailable",
]
const WITH_BODY: ReadonlyArray<ProblemCode> = [
  "content_type_invalid",
  "json_invalid",
  "request_too_large",
  "parameter_missing",
  "parameter_invalid",
]
const WITH_KEY: ReadonlyArray<ProblemCode> = ["idempotency_key_reused", "idempotency_request_in_progress"]

const jsonSchema = (schema: Schema.Top): Json => Schema.toJsonSchemaDocument(schema).schema as Json

/** Request objects refuse what they don't know; answers may grow. */
const closed = (schema: Json): Json => {
  const properties = schema.properties as Readonly<Record<string, Json>> | undefined
  const inner =
    properties === undefined
      ? {}
      : { properties: Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, closed(value)])) }
  return schema.type === "object" && properties !== undefined
    ? { ...schema, ...inner, additionalProperties: false }
    : schema
}

const codesOf = (declaration: Declaration): ReadonlyArray<ProblemCode> => [
  ...EVERYWHERE,
  ...(declaration.method === "GET" ? (["parameter_invalid"] as const) : WITH_BODY),
  ...(declaration.method === "POST" ? WITH_KEY : []),
  ...(declaration.codes ?? []),
]

const failures = (declaration: Declaration): Json => {
  const byStatus = new Map<number, Array<ProblemCode>>()
  for (const code of codesOf(declaration))
    byStatus.set(CATALOGUE[code].status, [...(byStatus.get(CATALOGUE[code].status) ?? []), code])
  return Object.fromEntries(
    [...byStatus]
      .sort(([a], [b]) => a - b)
      .map(([status, codes]) => [
        String(status),
        {
          description: `Codes: ${codes.join(", ")}`,
          headers: { "X-Request-Id": { $ref: "#/components/headers/RequestId" } },
          content: { "application/json": { schema: { $ref: "#/components/schemas/error" } } },
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

const answerSchema = (declaration: Declaration): Json => {
  const object = { $ref: `#/components/schemas/${declaration.answers}` }
  const data = declaration.list === true ? { type: "array", items: object } : object
  const meta = { $ref: "#/components/schemas/list_meta" }
  return {
    type: "object",
    properties: { success: { const: true }, data, ...(declaration.list === true ? { meta } : {}) },
    required: ["success", "data", ...(declaration.list === true ? ["meta"] : [])],
  }
}

const operationId = ({ method, path }: Declaration): string =>
  `${method.toLowerCase()}${path
    .split("/")
    .filter(Boolean)
    .map((part) => part.replace(":", "by-").replace(/(^|[-_])(\w)/g, (_, __, letter: string) => letter.toUpperCase()))
    .join("")}`

const operation = (declaration: Declaration): Json => ({
  operationId: operationId(declaration),
  summary: declaration.summary,
  tags: [declaration.path.split("/")[1]],
  description:
    declaration.access === "any" || declaration.access === "secret"
      ? `Needs ${declaration.access === "any" ? "a secret or restricted" : "a secret"} key.${declaration.sandboxOnly === true ? " Sandbox only." : ""}`
      : `Scope of restricted keys: ${declaration.access}:${declaration.method === "GET" ? "read" : "write"}.`,
  parameters: [
    ...pathParameters(declaration.path).map((name) => ({
      name,
      in: "path",
      required: true,
      schema: { type: "string", maxLength: 64 },
    })),
    ...(declaration.method === "POST" ? [{ $ref: "#/components/parameters/IdempotencyKey" }] : []),
    ...queryParameters(declaration),
  ],
  ...(declaration.body === undefined
    ? {}
    : { requestBody: { content: { "application/json": { schema: closed(jsonSchema(declaration.body)) } } } }),
  responses: {
    [declaration.status]: {
      description: "Success",
      headers: { "X-Request-Id": { $ref: "#/components/headers/RequestId" } },
      content: { "application/json": { schema: answerSchema(declaration) } },
    },
    ...failures(declaration),
  },
})

export const openApi = (endpoints: ReadonlyArray<Endpoint>, origin: string): Json => {
  const paths: Record<string, Record<string, Json>> = {}
  for (const { declaration } of endpoints) {
    const path = pathTemplate(declaration.path)
    paths[path] = { ...paths[path], [declaration.method.toLowerCase()]: operation(declaration) }
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Recurring Billing API",
      version: "1.0.0",
      description: "Plans, customers, subscriptions and charges in NGN. Amounts are integers in kobo.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [
      { url: `${origin}/sandbox/v1`, description: "Sandbox" },
      { url: `${origin}/v1`, description: "Live" },
    ],
    security: [{ apiKey: [] }],
    paths,
    components: {
      securitySchemes: { apiKey: { type: "http", scheme: "bearer", description: "Authorization: Bearer <API_KEY>" } },
      headers: { RequestId: { description: "The request's ID", schema: { type: "string" } } },
      parameters: {
        IdempotencyKey: {
          name: "Idempotency-Key",
          in: "header",
          description: "A retry with the same key and body gets the first answer (kept 24 hours)",
          schema: { type: "string", maxLength: 255 },
        },
      },
      schemas: {
        ...Object.fromEntries(Object.entries(OBJECTS).map(([name, schema]) => [name, jsonSchema(schema)])),
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
