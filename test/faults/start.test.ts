import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Redacted } from "effect"
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/account/accounts.ts"
import { createApi } from "../support/api.ts"
import { useDatabase } from "../support/database.ts"
import { startProxy } from "../support/proxy.ts"
import { runToEnd, startServer } from "../support/server.ts"
import { createCustomer, eventually } from "../support/story.ts"

const database = useDatabase()

const start = (env: Readonly<Record<string, string>>, args: ReadonlyArray<string> = []) =>
  runToEnd("src/main.ts", args, { DATABASE_URL: Redacted.value(database.url()), ...env })

describe.concurrent("a start that cannot be", () => {
  it.each([
    // What is wrong with settings themselves: test/config.test.ts.
    [{ BILLING_COLOR: "red" }, "BILLING_COLOR"],
    [{ DATABASE_URL: "postgres://127.0.0.1:9/none" }, "DATABASE_URL"],
    [{ NODE_ENV: "production", ENCRYPTION_KEY: "" }, "ENCRYPTION_KEY"],
  ])("says in one line what to change: %j", async (env, name) => {
    const { code, errors } = await start(env as Record<string, string>)
    expect(code).toBe(1)
    expect(errors.trim().split("\n")).toHaveLength(1)
    expect(errors).toContain(name)
  })

  it("names the port that is in use", async () => {
    const other = createServer().listen(0, "127.0.0.1")
    await new Promise((resolve) => other.once("listening", resolve))
    const { port } = other.address() as { port: number }
    const { code, errors } = await start({ PORT: String(port) })
    other.close()
    expect(code).toBe(1)
    expect(errors.trim()).toBe(`PORT ${port} on 127.0.0.1 is in use: stop the other program or set PORT.`)
  })

  it("names a DATA_DIR that cannot be used", async () => {
    const folder = mkdtempSync(join(tmpdir(), "recurring-billing-dir-"))
    const file = join(folder, "file")
    writeFileSync(file, "")
    chmodSync(file, 0o400)
    const { code, errors } = await runToEnd("src/main.ts", [], { DATA_DIR: join(file, "data") })
    rmSync(folder, { recursive: true })
    expect([code, errors.trim()]).toEqual([1, `DATA_DIR cannot be written: ${join(file, "data")}.`])
  })
})

describe.concurrent("plain HTTP", () => {
  it("is refused unless a trusted proxy took HTTPS", async () => {
    const { keys } = await database.run(() => createAccount({ businessName: "Secure" }))
    const server = await startServer(database.url(), { ALLOW_INSECURE_HTTP: "false", TRUST_PROXY: "true" })
    const api = createApi(server.origin, keys.sk_test)
    const refused = await api.get("/account")
    expect([refused.status, refused.body.error.type, refused.body.error.code]).toEqual([
      403,
      "permission_error",
      "https_required",
    ])
    expect((await api.request("GET", "/account", undefined, { "x-forwarded-proto": "https" })).status).toBe(200)
    for (const path of ["/docs", "/openapi.json", "/invoices/inv_1.pdf"])
      expect((await fetch(server.origin + path)).status, path).toBe(403)
    for (const path of ["/healthz", "/readyz"]) expect((await fetch(server.origin + path)).status, path).toBe(200)
    await server.stop()
  })
})

describe.concurrent("the database away", () => {
  it("is 503 with Retry-After, and over by itself when it is back", async () => {
    const { keys } = await database.run(() => createAccount({ businessName: "Away" }))
    const proxy = await startProxy(database.url())
    const server = await startServer(proxy.url)
    const api = createApi(server.origin, keys.sk_test)
    await createCustomer(api)
    proxy.cut()
    const answer = await api.post("/customers", { name: "Nobody" })
    expect([answer.status, answer.body.error.type, answer.body.error.code]).toEqual([
      503,
      "api_error",
      "service_unavailable",
    ])
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0)
    expect((await fetch(`${server.origin}/readyz`)).status).toBe(503)
    expect((await fetch(`${server.origin}/healthz`)).status).toBe(200)
    proxy.mend()
    await eventually(async () => ((await api.get("/customers")).status === 200 ? true : undefined))
    await createCustomer(api)
    expect(await server.stop()).toBe(0)
    proxy.close()
  })
})
