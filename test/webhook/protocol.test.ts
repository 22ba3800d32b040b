/** Tests delivery to an endpoint that supports more than one protocol. */
import { once } from "node:events"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createSecureServer } from "node:http2"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { CERTIFICATE, CERTIFICATE_KEY } from "../support/certificate.ts"
import { useOwnInstance } from "../support/instance.ts"
import { data, eventually } from "../support/story.ts"

const folder = mkdtempSync(join(tmpdir(), "recurring-billing-test-"))
const certificate = join(folder, "certificate.pem")
writeFileSync(certificate, CERTIFICATE)

const versions: Array<string> = []
const endpoint = createSecureServer(
  { cert: CERTIFICATE, key: CERTIFICATE_KEY, allowHTTP1: true },
  (request, response) => {
    versions.push(request.httpVersion)
    // An interim response is skipped over TLS too (decision I2).
    response.writeContinue()
    response.writeHead(200).end()
  },
)
beforeAll(async () => {
  endpoint.listen(0, "127.0.0.1")
  await once(endpoint, "listening")
})
const { api } = useOwnInstance(() => ({ NODE_EXTRA_CA_CERTS: certificate, ALLOW_LOOPBACK_WEBHOOKS: "true" }))
afterAll(() => {
  endpoint.close()
  rmSync(folder, { recursive: true })
})

it("uses HTTP/1.1, and an exchange that hangs has its own connection", async () => {
  const url = `https://127.0.0.1:${(endpoint.address() as AddressInfo).port}/hook`
  const { id } = data(await api.post("/webhook-endpoints", { url, enabled_events: ["*"] }), 201)
  expect(data(await api.post(`/webhook-endpoints/${id}/test`))).toMatchObject({ delivered: true })
  data(await api.post("/test/events/trigger", { type: "charge.failed" }), 201)
  await eventually(async () => (versions.length > 1 ? true : undefined))
  expect(new Set(versions)).toEqual(new Set(["1.1"]))
})
