/** Settings: what is wrong stops the start with one line that names it (docs/operating.md). */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Redacted } from "effect"
import { describe, expect, it } from "vitest"
import { ConfigProblem } from "../src/config/Config.ts"
import { readConfig } from "../src/config/readConfig.ts"

const reading = (env: Readonly<Record<string, string>>) => readConfig(env, { development: false })
const read = (env: Readonly<Record<string, string>>) => Effect.runSync(reading(env))
const refusal = (env: Readonly<Record<string, string>>) => Effect.runSync(Effect.flip(reading(env)))

const WHATSAPP = {
  WHATSAPP_PHONE_NUMBER_ID: "1",
  WHATSAPP_TOKEN: "t",
  WHATSAPP_APP_SECRET: "s",
  WHATSAPP_VERIFY_TOKEN: "v",
}

const KEY = Buffer.alloc(32, 1).toString("base64")

describe("a setting that cannot be", () => {
  it.each([
    [{ PORT: "http" }, "PORT"],
    [{ PORT: "70000" }, "PORT"],
    [{ HOST: "example.com" }, "HOST"],
    [{ WORKERS: "-1" }, "WORKERS"],
    [{ TRUST_PROXY: "yes" }, "TRUST_PROXY"],
    [{ HOST: "0.0.0.0", ALLOW_INSECURE_HTTP: "true" }, "ALLOW_INSECURE_HTTP"],
    [{ NODE_ENV: "production", DATABASE_URL: "postgres://x/y", ALLOW_INSECURE_HTTP: "true" }, "ALLOW_INSECURE_HTTP"],
    [
      { NODE_ENV: "production", DATABASE_URL: "postgres://x/y", ALLOW_LOOPBACK_WEBHOOKS: "true" },
      "ALLOW_LOOPBACK_WEBHOOKS",
    ],
    [{ NODE_ENV: "production", DATABASE_URL: "" }, "DATABASE_URL"],
    [{ NODE_ENV: "production", DATABASE_URL: "postgres://x/y" }, "ENCRYPTION_KEY"],
    [{ ENCRYPTION_KEY_FILE: "/nowhere/key" }, "ENCRYPTION_KEY_FILE"],
    [{ DATABASE_URL: "mysql://localhost/x" }, "DATABASE_URL"],
    [{ TLS_CERT: "/nowhere/cert.pem" }, "TLS_CERT"],
    [{ WEBHOOK_DNS_SERVERS: "dns.example" }, "WEBHOOK_DNS_SERVERS"],
    [{ QUIET_HOURS: "8" }, "QUIET_HOURS"],
    [{ QUIET_HOURS: "8-8" }, "QUIET_HOURS"],
    [{ QUIET_HOURS: "20-24" }, "QUIET_HOURS"],
    [{ WHATSAPP_TOKEN: "t" }, "WHATSAPP_APP_SECRET"],
    [{ ...WHATSAPP, WHATSAPP_URL: "graph.facebook.com" }, "WHATSAPP_URL"],
    [{ TERMII_API_KEY: "k", TERMII_SECRET: "s", TERMII_SENDER: "much too long a name" }, "TERMII_SENDER"],
    [{ SMTP_URL: "smtp://localhost" }, "EMAIL_FROM"],
    [{ SMTP_URL: "http://localhost", EMAIL_FROM: "a@b.example" }, "SMTP_URL"],
    [{ SMTP_URL: "smtp://localhost", EMAIL_FROM: "nobody" }, "EMAIL_FROM"],
    [{ SMTP_URL_FILE: "/nowhere/smtp", EMAIL_FROM: "a@b.example" }, "SMTP_URL_FILE"],
  ])("is refused by name: %j", (env, name) => {
    const problem = refusal(env as Record<string, string>)
    expect(problem).toBeInstanceOf(ConfigProblem)
    expect(problem.message).toContain(name)
    expect(problem.message).not.toContain("\n")
  })

  it.each([
    [{ PORT: "1e3" }, 'PORT must be a whole number from 0 to 65535, not "1e3".'],
    [{ TRUST_PROXY: "1" }, 'TRUST_PROXY must be true or false, not "1".'],
    [{ LOG_LEVEL: "loud" }, 'LOG_LEVEL must be one of error, warn, info, debug, not "loud".'],
    [{ PUBLIC_URL: "ftp://user:hunter2@x" }, "PUBLIC_URL must be a URL starting with http:// or https://."],
    [{ TLS_KEY: import.meta.filename }, "TLS_CERT and TLS_KEY go together: set both or neither."],
    [{ TLS_KEY: "/nowhere/key.pem" }, "TLS_KEY names a file that cannot be read: /nowhere/key.pem."],
    [{ SMTP_URL: "smtp://x" }, "SMTP_URL, EMAIL_FROM go together: EMAIL_FROM is not set."],
    [{ BILLING_COLOR: "red" }, "BILLING_COLOR is not a setting: docs/operating.md lists them."],
  ])("is told of in one line: %j", (env, line) => {
    expect(refusal(env as Record<string, string>).message).toBe(line)
  })

  it.each(["short", `${KEY}=`, `${KEY},`, `${KEY},short`, Array.from({ length: 9 }, () => KEY).join()])(
    "is told of without its value: ENCRYPTION_KEY=%s",
    (ENCRYPTION_KEY) =>
      expect(refusal({ ENCRYPTION_KEY }).message).toBe(
        "ENCRYPTION_KEY must be 32 bytes in base64, or up to 8 such keys, newest first, separated by commas.",
      ),
  )
})

describe("settings", () => {
  it("count as absent where they are empty, and without the spaces around them", () => {
    expect(read({ PORT: " 80 ", HOST: " ", WORKERS: "" })).toMatchObject({ port: 80, host: "127.0.0.1", workers: 1 })
  })

  it("are what they say, secrets never readable in what is printed", () => {
    const folder = mkdtempSync(join(tmpdir(), "recurring-billing-secret-"))
    const file = join(folder, "smtp")
    writeFileSync(file, "smtp://user:hunter2@mail.example:587\n")
    const { messaging } = read({ ...WHATSAPP, SMTP_URL_FILE: file, EMAIL_FROM: "a@b.example", QUIET_HOURS: "21-7" })
    rmSync(folder, { recursive: true })
    expect(messaging.quietHours).toEqual({ from: 21, to: 7 })
    expect(messaging.whatsapp).toMatchObject({ url: "https://graph.facebook.com/v23.0", phoneNumberId: "1" })
    expect(messaging.termii).toBeUndefined()
    expect(Redacted.value(messaging.smtp!.url)).toBe("smtp://user:hunter2@mail.example:587")
    expect(JSON.stringify(messaging)).not.toMatch(/hunter2|"t"|"s"|"v"/)
  })

  it("take several keys, newest first, from a variable or a file, and none outside production", () => {
    const other = Buffer.alloc(32, 2).toString("base64")
    const folder = mkdtempSync(join(tmpdir(), "recurring-billing-secret-"))
    const file = join(folder, "keys")
    writeFileSync(file, `${other}, ${KEY}\n`)
    for (const env of [{ ENCRYPTION_KEY: `${other},${KEY}` }, { ENCRYPTION_KEY_FILE: file }]) {
      const { encryptionKeys } = read(env as Record<string, string>)
      expect(encryptionKeys!.map((key) => Redacted.value(key)[0])).toEqual([2, 1])
      expect(JSON.stringify(encryptionKeys)).not.toMatch(/[12]/)
    }
    rmSync(folder, { recursive: true })
    expect(read({}).encryptionKeys).toBeUndefined()
  })

  it("remind between 08:00 and 20:00 in Lagos unless told otherwise, and simulate live outside production only", () => {
    expect(read({}).messaging).toMatchObject({ quietHours: { from: 20, to: 8 }, simulateLive: true })
    expect(read({ QUIET_HOURS: "off" }).messaging.quietHours).toBeNull()
    const production = { NODE_ENV: "production", DATABASE_URL: "postgres://x/y", ENCRYPTION_KEY: KEY }
    expect(read(production).messaging.simulateLive).toBe(false)
  })
})
