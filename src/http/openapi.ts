/** Builds the OpenAPI 3.1 document from the endpoints' declarations. */
import { Schema, SchemaAST } from "effect"
import { CATALOGUE, type ProblemCode } from "../base/catalogue.ts"
import type { Json } from "../base/json.ts"
import { levelOf } from "./access.ts"
import { type Declaration, takesCell } from "./Endpoint.ts"
import { codesOf } from "./openapiCodes.ts"
import { COMPONENTS, DELIVERY, header, SCHEMAS } from "./openapiComponents.ts"
import { withoutKey } from "./openapiWithoutKey.ts"
import { NUMBER_FORMAT, REFERENCE } from "./parameters.ts"
import { exampleId, exampleOf, nameOf } from "./response.ts"
import { pathParameters, pathTemplate } from "./routes.ts"

/** A source of the document: anything with an endpoint's declaration. */
export interface Declared {
  readonly declaration: Declaration
}

/** A type of event, with an example. */
export interface DeclaredEvent {
  readonly type: string
  /** When it is emitted. */
  readonly meaning: string
  /** The schema of its object. */
  readonly schema: Schema.Top
  readonly example: Json
}

/** The contents of the document. */
export interface Described {
  readonly endpoints: ReadonlyArray<Declared>
  readonly events: ReadonlyArray<DeclaredEvent>
}

/** Converts a schema to JSON Schema; a schema with a name is found among the definitions. */
const jsonSchema = (schema: Schema.Top): Json => {
  const { schema: own, definitions } = Schema.toJsonSchemaDocument(schema)
  const name = SchemaAST.resolveIdentifier(schema.ast)
  return (name === undefined ? own : (definitions[name] ?? own)) as Json
}

/** Removes a schema's examples: the responses show them. */
const withoutExamples = ({ examples: _, ...schema }: Json): Json => schema

const component = (name: string): Json => ({ $ref: `#/components/schemas/${name}` })

/** The object of an expandable field, if its name differs from the field's. */
const EXPANDED: Readonly<Record<string, string>> = { latest_charge: "charge" }

/** Replaces the general object in a schema by a certain one. */
const withObject = (schema: Json, object: Json): Json => {
  if (schema.type === "object") return object
  return Array.isArray(schema.anyOf)
    ? { ...schema, anyOf: (schema.anyOf as ReadonlyArray<Json>).map((one) => withObject(one, object)) }
    : schema
}

/** The schemas of response objects, by name. A field that an endpoint expands names the object that replaces its ID (decision B7). */
const objectsOf = (declarations: ReadonlyArray<Declaration>): Readonly<Record<string, Json>> =>
  Object.fromEntries(
    [...Map.groupBy(declarations, ({ success }) => nameOf(success))].map(([name, sameObject]) => {
      const schema = withoutExamples(jsonSchema(sameObject[0]!.success))
      const fields = new Set(sameObject.flatMap(({ expand }) => expand ?? []))
      if (fields.size === 0) return [name, schema]
      const properties = schema.properties as Readonly<Record<string, Json>>
      const expanded = [...fields].map((field) => [
        field,
        withObject(properties[field]!, component(EXPANDED[field] ?? field)),
      ])
      return [name, { ...schema, properties: { ...properties, ...Object.fromEntries(expanded) } }]
    }),
  )

/** Closes a request's objects: they refuse unknown parameters. Responses may grow. */
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

/** Whether a parameter of a body is the ID of another object. */
const refersToObjects = ({ body }: Declaration): boolean =>
  body !== undefined &&
  Object.values((jsonSchema(body).properties ?? {}) as Json).some((value) => JSON.stringify(value).includes(REFERENCE))

/** The statuses of a code: a missing object is 404 in the path, and 400 in the body (decision B3). */
const statusesOf = (declaration: Declaration, code: ProblemCode): ReadonlyArray<number> =>
  code !== "resource_missing"
    ? [CATALOGUE[code].status]
    : [
        ...(declaration.path.includes(":") ? [CATALOGUE[code].status] : []),
        ...(refersToObjects(declaration) ? [400] : []),
      ]

/** Headers of every response to a valid key. Writes also have the usage headers, and POST the replay header. */
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

/** Statuses of refusals before the request is read. */
const UNREAD = new Set([408, 431])
/** Headers that depend on the key: a refusal of the key has none of them. */
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

/** The example of a refusal, with the first of its codes. */
const errorExample = (code: ProblemCode, origin: string): Json => ({
  success: false,
  error: {
    type: CATALOGUE[code].type,
    code,
    message: CATALOGUE[code].explanation,
    param: null,
    request_id: exampleId("request"),
    doc_url: `${origin}/docs/errors#${code}`,
  },
})

const failures = (declaration: Declaration, origin: string): Json => {
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
            "application/json": {
              schema: { $ref: "#/components/schemas/error" },
              example: errorExample(codes[0]!, origin),
            },
          },
        },
      ]),
  )
}

/** Restores the type of a number: queries contain numbers as text. */
const inQuery = (schema: Json): Json => (schema.format === NUMBER_FORMAT ? { ...schema, type: "integer" } : schema)

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
        : { name, in: "query", required: false, description: value.description ?? name, schema: inQuery(value) },
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
  const object = component(nameOf(declaration.success))
  const data = declaration.list === true ? { type: "array", items: object } : object
  const name = declaration.list === true ? "list_meta" : declaration.dryRun === true ? "dry_run_meta" : undefined
  const meta = name === undefined ? {} : { meta: component(declaration.meta ?? name) }
  return {
    type: "object",
    properties: { success: { const: true }, data, ...meta },
    required: ["success", "data", ...(declaration.list === true ? ["meta"] : [])],
  }
}

const successExample = (declaration: Declaration): Json => {
  const data = exampleOf(declaration.success)
  return declaration.list === true
    ? { success: true, data: [data], meta: { has_more: false, next_cursor: null, limit: 20 } }
    : { success: true, data }
}

/** The keys that may call an endpoint, in words. */
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

const requestBody = (schema: Json, { example }: Declaration): Json => ({
  required: Array.isArray(schema.required),
  content: { "application/json": { schema: closed(schema), example } },
})

const operation = (declaration: Declaration, origin: string): Json => ({
  operationId: operationId(declaration),
  summary: declaration.summary,
  tags: [declaration.path.split("/")[1]],
  description: `${needOf(declaration)}${declaration.sandboxOnly === true ? " Sandbox only." : ""}${declaration.vertical === undefined ? "" : ` For accounts whose business type is ${declaration.vertical}.`}${declaration.notes === undefined ? "" : ` ${declaration.notes}`}`,
  ...(declaration.access === "public" ? { security: [] } : {}),
  ...(declaration.sandboxOnly === true ? { servers: [sandbox(origin)] } : {}),
  parameters: [
    ...pathParameters(declaration.path).map((name) => ({
      name,
      in: "path",
      required: true,
      schema: { type: "string", maxLength: 64 },
    })),
    ...(declaration.method === "POST" && declaration.changesNothing !== true
      ? [{ $ref: "#/components/parameters/IdempotencyKey" }]
      : []),
    ...(takesCell(declaration) ? [{ $ref: "#/components/parameters/Cell" }] : []),
    ...(declaration.dryRun === true
      ? [{ $ref: "#/components/parameters/DryRun" }, { $ref: "#/components/parameters/Assume" }]
      : []),
    ...queryParameters(declaration),
  ],
  ...(declaration.body === undefined ? {} : { requestBody: requestBody(jsonSchema(declaration.body), declaration) }),
  responses: {
    [declaration.status]: {
      description: "Success",
      headers: headersOf(declaration),
      content: { "application/json": { schema: successSchema(declaration), example: successExample(declaration) } },
    },
    ...failures(declaration, origin),
  },
})

/** The example of the object of this name, from an endpoint that returns it. */
const exampleNamed = (endpoints: ReadonlyArray<Declared>, name: string): Json =>
  exampleOf(endpoints.find(({ declaration }) => nameOf(declaration.success) === name)!.declaration.success)

/** The schema of events of one type. `any`: the schema of all events. */
const eventSchema = (any: Json, { type, schema }: DeclaredEvent): Json => {
  const properties = any.properties as Readonly<Record<string, Json>>
  const data = properties.data as { readonly properties: Json }
  const object = component(nameOf(schema))
  return {
    ...any,
    properties: { ...properties, type: { const: type }, data: { ...data, properties: { ...data.properties, object } } },
  }
}

/** The delivery of a type of event to the endpoints that are enabled for it (decision I7). */
const delivery = (any: Json, event: DeclaredEvent): Json => ({
  ...DELIVERY,
  operationId: event.type,
  summary: event.meaning,
  requestBody: {
    required: true,
    content: {
      "application/json": {
        schema: eventSchema(any, event),
        example: event.example,
      },
    },
  },
})

export const openApi = ({ endpoints, events }: Described, origin: string): Json => {
  const objects = objectsOf(endpoints.map(({ declaration }) => declaration))
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
      { name: "invoices", description: "The service's invoices as PDF" },
      { name: "health", description: "Checks for load balancers" },
      {
        name: "pages",
        description: "Pages on which buyers pay, called by a program: with Accept: application/json",
      },
      { name: "callbacks", description: "Callbacks from payment rails and messengers" },
    ],
    paths: { ...paths, ...withoutKey(origin, exampleNamed(endpoints, "savings_plan")) },
    webhooks: Object.fromEntries(events.map((event) => [event.type, { post: delivery(objects.event!, event) }])),
    components: {
      ...COMPONENTS,
      schemas: {
        ...Object.fromEntries(events.map(({ schema }) => [nameOf(schema), withoutExamples(jsonSchema(schema))])),
        ...objects,
        ...SCHEMAS,
      },
    },
  }
}
