import { createConfig, lintFromString } from "@redocly/openapi-core"
import { Schema } from "effect"
import { describe, expect, it } from "vitest"
import { endpoints } from "../../src/app/api.ts"
import { CATALOGUE } from "../../src/base/catalogue.ts"
import { codesOf } from "../../src/http/openapiCodes.ts"
import { exampleOf, nameOf } from "../../src/http/response.ts"
import { Event } from "../../src/outbound/event/api.ts"
import { EVENT_MEANINGS, EVENT_TYPES, type EventType } from "../../src/outbound/event/types.ts"
import { declaredEvents } from "../../src/sandbox/samples.ts"
import { SCOPE_NAMES } from "../../src/security/key/scopes.ts"
import { useOwnInstance } from "../support/instance.ts"
import { RESPONSES } from "../support/responses.ts"

const { server } = useOwnInstance(() => ({ WORKERS: "0" }))

const page = async (path: string) => {
  const answer = await fetch(server().origin + path)
  return { status: answer.status, headers: answer.headers, text: await answer.text() }
}

describe("the OpenAPI document", () => {
  it("passes the linter's recommended rules", async () => {
    const config = await createConfig({ extends: ["recommended"] })
    // The contract's paths. A product's path has a word in place of a plan's ID, and words win (src/http/routes.ts).
    const expectedWarning =
      /^no-ambiguous-paths: .*`\/provider-savings\/products\/{id}` and `\/provider-savings\/{id}\//
    const lint = async (source: string) =>
      (await lintFromString({ source, config }))
        .map(({ ruleId, message }) => `${ruleId}: ${message}`)
        .filter((found) => !expectedWarning.test(found))
    const { text } = await page("/openapi.json")
    expect(await lint(text)).toEqual([])
    // The linter does check.
    expect(await lint(text.replace('"openapi":"3.1.0"', '"openapi":"3.1.0","colour":"red"'))).not.toEqual([])
  })

  it("has every endpoint with its examples, codes and headers", async () => {
    const document = JSON.parse((await page("/openapi.json")).text)
    expect(document.openapi).toBe("3.1.0")
    for (const { declaration } of endpoints) {
      const { method, path, status, body, access } = declaration
      const operation = document.paths[path.replaceAll(/:(\w+)/g, "{$1}")]?.[method.toLowerCase()]
      expect(operation, `${method} ${path}`).toBeDefined()
      const success = operation.responses[status]
      expect(success.content["application/json"].example.success).toBe(true)
      const counts = method !== "GET" && access !== "public"
      expect(Object.keys(success.headers)).toContain(counts ? "X-Service-Billable" : "RateLimit-Limit")
      if (access === "public") expect(operation.security).toEqual([])
      expect(operation.responses[429].headers).toHaveProperty("Retry-After")
      expect(Object.keys(operation.responses[403].headers)).toEqual(
        Object.keys(success.headers).filter((name) => name !== "Location"),
      )
      if (body !== undefined) expect(operation.requestBody.content["application/json"].example).toBeDefined()
      for (const code of declaration.codes ?? []) {
        // An unknown ID is 404 in the path, and 400 in the body (decision B3).
        const statuses = code === "resource_missing" ? [404, 400] : [CATALOGUE[code].status]
        const listed = statuses.filter((one) => operation.responses[one]?.description.includes(code))
        expect(listed.length, `${method} ${path} ${code}`).toBeGreaterThan(0)
        if (code === "resource_missing") expect(listed.includes(404)).toBe(path.includes(":"))
      }
      if (declaration.sandboxOnly === true) expect(operation.servers).toHaveLength(1)
    }
    const operations = Object.values(document.paths).flatMap((path) => Object.keys(path as object))
    const withoutKey = [
      ["get", "/healthz"],
      ["get", "/readyz"],
      ["get", "/invoices/{id}.pdf"],
      ["post", "/checkout/{token}/complete"],
      ["get", "/checkout/{token}/return"],
      ["post", "/pay/{token}/complete"],
      ["get", "/pay/{token}/return"],
      ["get", "/save/{token}"],
      ["post", "/save/{token}/pay/complete"],
      ["get", "/save/{token}/pay/return"],
      ["post", "/callbacks/paystack/{account}"],
      ["post", "/callbacks/flutterwave/{account}"],
      ["get", "/callbacks/whatsapp/{account}"],
      ["post", "/callbacks/whatsapp/{account}"],
      ["post", "/callbacks/termii/{account}"],
    ] as const
    for (const [method, path] of withoutKey) expect(document.paths[path][method].security, path).toEqual([])
    expect(operations.length).toBe(endpoints.length + withoutKey.length)
  })

  it("has each type of event, with an example that matches its schemas", async () => {
    const { webhooks, components } = JSON.parse((await page("/openapi.json")).text)
    expect(Object.keys(webhooks)).toEqual([...EVENT_TYPES])
    for (const { type, schema } of declaredEvents) {
      const { summary, requestBody } = webhooks[type].post
      expect(summary).toBe(EVENT_MEANINGS[type as EventType])
      const { example, schema: shape } = requestBody.content["application/json"]
      expect(shape.properties.type.const).toBe(type)
      const named = shape.properties.data.properties.object.$ref.split("/").at(-1)
      expect(components.schemas).toHaveProperty(named)
      Schema.decodeUnknownSync(Event)(example)
      Schema.decodeUnknownSync(schema as Schema.Codec<unknown, unknown>)(example.data.object)
    }
  })

  it("has the format of phone numbers, and requires names that are not blank", async () => {
    const { paths } = JSON.parse((await page("/openapi.json")).text)
    const { name, phone } = paths["/customers"].post.requestBody.content["application/json"].schema.properties
    expect(JSON.stringify(phone)).toContain(JSON.stringify("^\\+[1-9]\\d{6,14}$"))
    expect(JSON.stringify(name)).toContain(JSON.stringify("\\S"))
    for (const one of [name, phone]) expect(one.description).toBeDefined()
  })

  it("says which object an expanded field holds", async () => {
    const { schemas } = JSON.parse((await page("/openapi.json")).text).components
    const refs = endpoints.flatMap(({ declaration: { success, expand = [] } }) =>
      expand.map((field) => {
        const [, name] = /"\$ref":"#\/components\/schemas\/(\w+)"/.exec(
          JSON.stringify(schemas[nameOf(success)].properties[field]),
        )!
        expect(schemas[name!].properties.object).toEqual({ type: "string", enum: [name] })
        return `${field} ${name}`
      }),
    )
    expect([...new Set(refs)].toSorted()).toEqual([
      "customer customer",
      "latest_charge charge",
      "plan plan",
      "subscription subscription",
      "test_clock test_clock",
    ])
  })

  it("has examples that match its schemas", () => {
    for (const schema of RESPONSES.values()) Schema.decodeUnknownSync(schema)(exampleOf(schema))
    for (const { declaration } of endpoints) {
      if (declaration.body === undefined) continue
      Schema.decodeUnknownSync(declaration.body as Schema.Codec<unknown, unknown>)(declaration.example)
    }
  })
})

describe("/docs", () => {
  it("renders the reference and the scopes from its own host only", async () => {
    const { text, headers } = await page("/docs")
    for (const name of SCOPE_NAMES) expect(text).toContain(`<code>${name}</code>`)
    for (const { declaration } of endpoints) expect(text).toContain(`<code>${declaration.method} `)
    expect(text).toContain("restricted key with subscriptions:write")
    const addresses = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address]) => address!)
    expect(addresses.length).toBeGreaterThan(3)
    for (const address of addresses.filter((other) => other !== "data:," && !other.startsWith("#"))) {
      expect(address).toMatch(/^\//)
      expect([address, (await page(address)).status]).toEqual([address, 200])
    }
    expect(headers.get("content-security-policy")).toContain("script-src 'self'")
    // The reference is read first.
    expect(text.indexOf('id="swagger"')).toBeLessThan(text.indexOf('id="keys"'))
    expect(text.indexOf('id="keys"')).toBeLessThan(text.indexOf("<table"))
  })

  it("explains each code, and each is declared by an endpoint or used by a page without a key", async () => {
    const { text } = await page("/docs/errors")
    for (const code of Object.keys(CATALOGUE)) expect(text, code).toContain(`id="${code}"`)
    const declared = new Set<string>(endpoints.flatMap(({ declaration }) => codesOf(declaration)))
    expect(Object.keys(CATALOGUE).filter((code) => !declared.has(code))).toEqual([
      "message_unknown",
      "signature_invalid",
      "link_invalid",
      "route_missing",
      "payment_link_closed",
      "card_declined",
      "amount_changed",
      "too_many_attempts",
      "member_state_invalid",
      "key_state_invalid",
      "key_limit_reached",
      "sign_in_limit_reached",
      "sign_in_invalid",
      "role_insufficient",
      "sign_in_required",
      "form_invalid",
    ])
  })
})
