/** Tests settings: an invalid one stops the start with one line that names it (docs/operating.md). */
import { generateKeyPairSync } from "node:crypto"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import type { BlockList } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Redacted } from "effect"
import { describe, expect, it } from "vitest"
import { ConfigProblem } from "../src/config/Config.ts"
import { readConfig } from "../src/config/readConfig.ts"
import { CERTIFICATE, CERTIFICATE_KEY } from "./support/certificate.ts"

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
/** Production settings, all required ones, on this machine. */
const PRODUCTION = { NODE_ENV: "production", DATABASE_URL: "postgres://localhost/billing", ENCRYPTION_KEY: KEY }
const TERMII = { TERMII_API_KEY: "k", TERMII_SECRET: "s", TERMII_SENDER: "FitLagos" }

describe("an invalid setting", () => {
  it.each([
    [{ PORT: "http" }, "PORT"],
    [{ PORT: "70000" }, "PORT"],
    [{ HOST: "example.com" }, "HOST"],
    [{ WORKERS: "-1" }, "WORKERS"],
    [{ TRUST_PROXY: "yes" }, "TRUST_PROXY"],
    [{ TRUST_PROXY: "10.0.0.0/33" }, "TRUST_PROXY"],
    [{ TRUST_PROXY: "fd00::/129" }, "TRUST_PROXY"],
    [{ TRUST_PROXY: "10.0.0.0/8,,fd00::/8" }, "TRUST_PROXY"],
    [{ TRUST_PROXY: "10.0.0.0/8,proxy.internal" }, "TRUST_PROXY"],
    [{ TRUST_PROXY: "fe80::1%eth0" }, "TRUST_PROXY"],
    [{ IN_FLIGHT: "0" }, "IN_FLIGHT"],
    [{ IN_FLIGHT: "100001" }, "IN_FLIGHT"],
    [{ HOST: "0.0.0.0", ALLOW_INSECURE_HTTP: "true" }, "ALLOW_INSECURE_HTTP"],
    [{ ...PRODUCTION, ALLOW_INSECURE_HTTP: "true" }, "ALLOW_INSECURE_HTTP"],
    [{ ...PRODUCTION, ALLOW_LOOPBACK_WEBHOOKS: "true" }, "ALLOW_LOOPBACK_WEBHOOKS"],
    [{ NODE_ENV: "production", DATABASE_URL: "" }, "DATABASE_URL"],
    [{ NODE_ENV: "production", DATABASE_URL: "postgres://localhost/x" }, "ENCRYPTION_KEY"],
    [{ ENCRYPTION_KEY_FILE: "/nowhere/key" }, "ENCRYPTION_KEY_FILE"],
    [{ ENCRYPTION_KEY: KEY, ENCRYPTION_KEY_FILE: import.meta.filename }, "ENCRYPTION_KEY_FILE are both set"],
    [{ DATABASE_URL: "mysql://localhost/x" }, "DATABASE_URL"],
    [{ TLS_CERT: "/nowhere/cert.pem" }, "TLS_CERT"],
    [{ WEBHOOK_DNS_SERVERS: "dns.example" }, "WEBHOOK_DNS_SERVERS"],
    [{ WEBHOOK_DNS_SERVERS: "9.9.9.9:65536" }, "WEBHOOK_DNS_SERVERS"],
    [{ WEBHOOK_DNS_SERVERS: "9.9.9.9:0" }, "WEBHOOK_DNS_SERVERS"],
    [{ WEBHOOK_DNS_SERVERS: "999.1.1.1" }, "WEBHOOK_DNS_SERVERS"],
    [{ WEBHOOK_DNS_SERVERS: "[::g]:53" }, "WEBHOOK_DNS_SERVERS"],
    [{ SMTP_URL: "smtp://mail.example:99999", EMAIL_FROM: "a@b.example" }, "SMTP_URL"],
    [{ SMTP_URL: "smtp://", EMAIL_FROM: "a@b.example" }, "SMTP_URL"],
    [{ FLUTTERWAVE_URL: "https://api.flutterwave.com/v3/" }, "FLUTTERWAVE_URL"],
    [{ QUIET_HOURS: "8" }, "QUIET_HOURS"],
    [{ QUIET_HOURS: "8-8" }, "QUIET_HOURS"],
    [{ QUIET_HOURS: "20-24" }, "QUIET_HOURS"],
    [{ WHATSAPP_TOKEN: "t" }, "WHATSAPP_APP_SECRET"],
    [{ ...WHATSAPP, WHATSAPP_URL: "graph.facebook.com" }, "WHATSAPP_URL"],
    [{ ...TERMII, TERMII_SENDER: "much too long a name" }, "TERMII_SENDER"],
    [{ SMTP_URL: "smtp://localhost" }, "EMAIL_FROM"],
    [{ SMTP_URL: "http://localhost", EMAIL_FROM: "a@b.example" }, "SMTP_URL"],
    [{ SMTP_URL: "smtp://localhost", EMAIL_FROM: "nobody" }, "EMAIL_FROM"],
    [{ PAYSTACK_URL: "api.paystack.co" }, "PAYSTACK_URL"],
    [{ FLUTTERWAVE_URL: "ftp://api.flutterwave.com" }, "FLUTTERWAVE_URL"],
    [{ RAIL_TIMEOUT: "0" }, "RAIL_TIMEOUT"],
    [{ RAIL_TIMEOUT: "121" }, "RAIL_TIMEOUT"],
    [{ RAIL_TIMEOUT: "2.5" }, "RAIL_TIMEOUT"],
    [{ SELLER_TIN: "12-34" }, "SELLER_TIN"],
    [{ SELLER_EMAIL: "accounts" }, "SELLER_EMAIL"],
    [{ SELLER_ADDRESS: "x".repeat(201) }, "SELLER_ADDRESS"],
    [{ NODE_ENV: "prod" }, "NODE_ENV"],
    [{ NODE_ENV: "Production" }, "NODE_ENV"],
    [{ SMTP_URL_FILE: "/nowhere/smtp", EMAIL_FROM: "a@b.example" }, "SMTP_URL_FILE"],
  ])("is refused by name: %j", (env, name) => {
    const problem = refusal(env as Record<string, string>)
    expect(problem).toBeInstanceOf(ConfigProblem)
    expect(problem.message).toContain(name)
    expect(problem.message).not.toContain("\n")
  })

  it.each([
    [{ PORT: "1e3" }, 'PORT must be a whole number from 0 to 65535, not "1e3".'],
    [{ TRUST_PROXY: "1" }, 'TRUST_PROXY must be true, false, or networks such as 10.0.0.0/8,fd00::/8, not "1".'],
    [{ IN_FLIGHT: "many" }, 'IN_FLIGHT must be a whole number from 1 to 100000, not "many".'],
    [{ LOG_LEVEL: "loud" }, 'LOG_LEVEL must be one of error, warn, info, debug, not "loud".'],
    [{ PUBLIC_URL: "ftp://user:hunter2@x" }, "PUBLIC_URL must be a URL starting with http:// or https://."],
    [{ TLS_KEY: import.meta.filename }, "TLS_CERT and TLS_KEY go together: set both or neither."],
    [{ TLS_KEY: "/nowhere/key.pem" }, "TLS_KEY names a file that cannot be read: /nowhere/key.pem."],
    [{ NODE_ENV: "staging" }, 'NODE_ENV must be one of development, production, test, not "staging".'],
    [
      { LIVE_HOST: "api.example", SANDBOX_HOST: "API.example" },
      "LIVE_HOST and SANDBOX_HOST must differ: both are api.example.",
    ],
    [{ SMTP_URL: "smtp://x" }, "SMTP_URL, EMAIL_FROM go together: EMAIL_FROM is not set."],
    [
      { PAYSTACK_URL: "http://paystack.example" },
      "PAYSTACK_URL must begin with https://: plain http is for hosts such as 127.0.0.1 and localhost.",
    ],
    [{ RAIL_TIMEOUT: "1e1" }, 'RAIL_TIMEOUT must be a whole number from 1 to 120, not "1e1".'],
    [{ BILLING_COLOR: "red" }, "BILLING_COLOR is not a setting: docs/operating.md lists them."],
  ])("is reported in one line: %j", (env, line) => {
    expect(refusal(env as Record<string, string>).message).toBe(line)
  })

  it.each(["https://api.example", "api.example:443", "api.example/v1", "a b", "api..example", "api.", "ada:hunter2@x"])(
    "is reported with its expected form: LIVE_HOST or SANDBOX_HOST=%s",
    (host) => {
      for (const name of ["LIVE_HOST", "SANDBOX_HOST"])
        expect(refusal({ [name]: host }).message).toBe(
          `${name} must be a host name such as api.example.com, without a scheme, a port and a path.`,
        )
    },
  )

  it.each(["https://ada:hunter2@x/p", "https://x/p?a=hunter2", "https://x/p#", "https://x/p?"])(
    "is reported without its possibly secret value: FLUTTERWAVE_URL=%s",
    (FLUTTERWAVE_URL) =>
      expect(refusal({ FLUTTERWAVE_URL }).message).toBe(
        "FLUTTERWAVE_URL must be without a user, a password, a query and a fragment: write https://x/p.",
      ),
  )

  it.each(["https://x/pay", "https://x?a=b", "https://x/?", "https://x/#top", "https://ada:hunter2@x"])(
    "is reported with its expected form: PUBLIC_URL=%s",
    (PUBLIC_URL) =>
      expect(refusal({ PUBLIC_URL }).message).toBe(
        "PUBLIC_URL must be without a user, a path, a query and a fragment: write https://x.",
      ),
  )

  it("is refused because of the content of the file that it names", () => {
    const folder = mkdtempSync(join(tmpdir(), "recurring-billing-config-"))
    const file = (name: string, text: string): string => {
      writeFileSync(join(folder, name), text)
      return join(folder, name)
    }
    const empty = file("empty", " \n")
    const [cert, key] = [file("cert.pem", CERTIFICATE), file("key.pem", CERTIFICATE_KEY)]
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" })
    const another = file("another.pem", String(privateKey.export({ type: "pkcs8", format: "pem" })))
    const noCertificate = "TLS_CERT must name a file with a certificate in PEM."
    const noKey =
      "TLS_KEY must name a file with the private key of TLS_CERT's certificate, in PEM, without a passphrase."
    for (const [env, line] of [
      [{ ENCRYPTION_KEY_FILE: empty }, `ENCRYPTION_KEY_FILE names a file that is empty: ${empty}.`],
      [{ TLS_CERT: cert, TLS_KEY: empty }, `TLS_KEY names a file that is empty: ${empty}.`],
      [{ TLS_CERT: key, TLS_KEY: key }, noCertificate],
      [{ TLS_CERT: import.meta.filename, TLS_KEY: key }, noCertificate],
      [{ TLS_CERT: cert, TLS_KEY: cert }, noKey],
      [{ TLS_CERT: cert, TLS_KEY: another }, noKey],
    ] as const)
      expect(refusal(env).message).toBe(line)
    expect(read({ TLS_CERT: cert, TLS_KEY: key }).transport.tls?.cert).toBe(CERTIFICATE)
    rmSync(folder, { recursive: true })
  })

  it.each(["short", `${KEY}=`, `${KEY},`, `${KEY},short`, Array.from({ length: 9 }, () => KEY).join()])(
    "is reported without its value: ENCRYPTION_KEY=%s",
    (ENCRYPTION_KEY) =>
      expect(refusal({ ENCRYPTION_KEY }).message).toBe(
        "ENCRYPTION_KEY must be 32 bytes in base64, or up to 8 such keys, newest first, separated by commas.",
      ),
  )
})

describe("in production", () => {
  const tls = "DATABASE_URL must ask for TLS when NODE_ENV=production: add ?sslmode=verify-full to it."
  const smtp = "SMTP_URL must ask for TLS when NODE_ENV=production: begin it with smtps://, or add ?requireTLS=true."
  const https = (name: string) => `${name} must begin with https:// when NODE_ENV=production.`
  const mail = (url: string) => ({ SMTP_URL: url, EMAIL_FROM: "a@b.example" })

  const READABLE: ReadonlyArray<readonly [Readonly<Record<string, string>>, string]> = [
    [{ DATABASE_URL: "postgres://db.internal/billing" }, tls],
    [{ DATABASE_URL: "postgres://db.internal/billing?sslmode=prefer" }, tls],
    [{ DATABASE_URL: "postgres://db.internal/billing?sslmode=require&sslmode=disable" }, tls],
    [{ DATABASE_URL: "postgres://localhost/billing?host=10.0.0.1" }, tls],
    [{ DATABASE_URL: "postgres://127.0.0.1.example/billing" }, tls],
    [{ DATABASE_URL: "postgres:///billing" }, tls],
    [mail("smtp://mail.example:587"), smtp],
    [mail("smtp://mail.example:587?requireTLS=false"), smtp],
    [mail("smtp://mail.example?requireTLS=true&requireTLS=false"), smtp],
    [mail("smtp:///?host=mail.example"), smtp],
    [{ ...WHATSAPP, WHATSAPP_URL: "http://graph.example" }, https("WHATSAPP_URL")],
    [{ ...TERMII, TERMII_URL: "http://termii.example" }, https("TERMII_URL")],
    [{ PUBLIC_URL: "http://pay.example" }, https("PUBLIC_URL")],
  ]

  it.each(READABLE)("no data crosses a network that others can read: %j", (env, line) => {
    expect(refusal({ ...PRODUCTION, ...env }).message).toBe(line)
  })

  it.each(READABLE)("settings that are allowed elsewhere are refused: %j", (env) => {
    expect(read(env).production).toBe(false)
  })

  it.each(["http://127.0.0.1:8080", "http://paystack.example"])("no rail is called by plain http: %s", (url) => {
    const line = (name: string) => `${name} must begin with https:// when NODE_ENV=production.`
    expect(refusal({ ...PRODUCTION, PAYSTACK_URL: url }).message).toBe(line("PAYSTACK_URL"))
    expect(refusal({ ...PRODUCTION, FLUTTERWAVE_URL: url }).message).toBe(line("FLUTTERWAVE_URL"))
  })

  it.each([
    { DATABASE_URL: "postgres://db.internal/billing?sslmode=require" },
    { DATABASE_URL: "postgres://db.internal/billing?sslmode=verify-ca" },
    { DATABASE_URL: "postgresql://db.internal/billing?sslmode=verify-full" },
    { DATABASE_URL: "postgres://127.0.0.1:5433/billing" },
    { DATABASE_URL: "postgres://[::1]/billing" },
    { DATABASE_URL: "postgres:///billing?host=/var/run/postgresql" },
    { DATABASE_URL: "postgres://%2Fvar%2Frun%2Fpostgresql/billing" },
    mail("smtps://mail.example"),
    mail("smtp://user:p%40ss@mail.example:587?requireTLS=true"),
    mail("smtp://localhost:25"),
    { ...WHATSAPP, WHATSAPP_URL: "https://graph.example" },
    { ...TERMII, TERMII_URL: "http://127.0.0.1:8080" },
    { PUBLIC_URL: "https://pay.example" },
    { PUBLIC_URL: "http://[::1]:3000" },
  ])("TLS, or addresses on this machine, are accepted: %j", (env) => {
    expect(read({ ...PRODUCTION, ...env }).production).toBe(true)
  })
})

describe("TRUST_PROXY", () => {
  it("trusts all peers, no peers, or listed networks and addresses", () => {
    expect(read({}).transport.trustProxy).toBe(false)
    expect(read({ TRUST_PROXY: "false" }).transport.trustProxy).toBe(false)
    expect(read({ TRUST_PROXY: "true" }).transport.trustProxy).toBe(true)
    const networks = read({ TRUST_PROXY: "10.0.0.0/8, 192.0.2.7,fd00::/8,2001:DB8::1" }).transport
      .trustProxy as BlockList
    const inside = ["10.255.0.1", "192.0.2.7", "fd12::1", "2001:db8::1"]
    const outside = ["11.0.0.1", "192.0.2.8", "fe00::1", "2001:db8::2"]
    const among = (addresses: ReadonlyArray<string>) =>
      addresses.filter((address) => networks.check(address, address.includes(":") ? "ipv6" : "ipv4"))
    expect(among([...inside, ...outside])).toEqual(inside)
  })
})

describe("settings", () => {
  it("limit concurrent requests to 50 for each account, and to 1,000 under npm start", () => {
    expect(read({}).inFlight).toBe(50)
    expect(read({ IN_FLIGHT: "100000" }).inFlight).toBe(100_000)
    const npmStart = (env: Readonly<Record<string, string>>) => Effect.runSync(readConfig(env, { development: true }))
    expect(npmStart({})).toMatchObject({
      inFlight: 1_000,
      rateLimits: { live: 10_000, sandbox: 10_000, public: 10_000 },
    })
    expect(npmStart({ IN_FLIGHT: "7" }).inFlight).toBe(7)
    expect(npmStart(PRODUCTION)).toMatchObject({ inFlight: 50, rateLimits: { live: 100, sandbox: 50, public: 10 } })
  })

  it("give the addresses of the rails, and the timeout of a call", () => {
    expect(read({}).rails).toEqual({
      urls: { paystack: "https://api.paystack.co", flutterwave: "https://api.flutterwave.com" },
      timeoutMs: 30_000,
    })
    const env = { PAYSTACK_URL: "http://[::1]:8080/", FLUTTERWAVE_URL: "https://rail.example/f//", RAIL_TIMEOUT: "120" }
    expect(read(env).rails).toEqual({
      urls: { paystack: "http://[::1]:8080", flutterwave: "https://rail.example/f" },
      timeoutMs: 120_000,
    })
  })

  it("are treated as absent if empty, and are trimmed", () => {
    expect(read({ PORT: " 80 ", HOST: " ", WORKERS: "" })).toMatchObject({ port: 80, host: "127.0.0.1", workers: 1 })
  })

  it("have their stated values, and secrets are never printed", () => {
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

  it("accept several keys, newest first, from a variable or a file, and no keys outside production", () => {
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

  it("send reminders between 08:00 and 20:00 in Lagos by default, and simulate live outside production only", () => {
    expect(read({}).messaging).toMatchObject({ quietHours: { from: 20, to: 8 }, simulateLive: true })
    expect(read({ QUIET_HOURS: "off" }).messaging.quietHours).toBeNull()
    expect(read(PRODUCTION).messaging.simulateLive).toBe(false)
  })
})
