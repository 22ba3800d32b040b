/**
 * The settings of a process, read once from its environment (docs/operating.md lists them).
 * Anything wrong stops the start with one line that names the setting.
 */
import { readFileSync } from "node:fs"
import { isIP } from "node:net"
import { resolve } from "node:path"
import { Redacted } from "effect"
import type { QuietHours } from "../machines/reminders.ts"

/** How requests reach us: decides what counts as HTTPS (decision A2) and which host is which environment (A1). */
export interface Transport {
  readonly tls: { readonly cert: string; readonly key: Redacted.Redacted<string> } | undefined
  readonly trustProxy: boolean
  readonly allowInsecureHttp: boolean
  readonly liveHost: string | undefined
  readonly sandboxHost: string | undefined
}

/** Requests a second that are sustained; a burst is twice that (decision J6). */
export interface RateLimits {
  readonly live: number
  readonly sandbox: number
  /** By address, at pages that need no key. */
  readonly public: number
}

/** What an operator gets to see (docs/operating.md). */
export interface Observability {
  readonly logLevel: "Error" | "Warn" | "Info" | "Debug"
  readonly logFormat: "json" | "text"
  /** Where traces, metrics and logs go by OTLP over HTTP; absent: nowhere. */
  readonly otlpEndpoint: string | undefined
  /** Port of GET /metrics on `metricsHost`; absent: not served. */
  readonly metricsPort: number | undefined
  readonly metricsHost: string
}

/** Where webhooks may go (decision I4). */
export interface Webhooks {
  readonly allowLoopback: boolean
  /** DNS servers to ask instead of the system's. */
  readonly dnsServers: ReadonlyArray<string>
}

/** WhatsApp by the Cloud API. */
export interface WhatsAppSettings {
  /** Such as https://graph.facebook.com/v23.0. */
  readonly url: string
  readonly phoneNumberId: string
  readonly token: Redacted.Redacted<string>
  /** Signs what Meta sends. */
  readonly appSecret: Redacted.Redacted<string>
  /** What Meta is told to say when it is shown the callback's address. */
  readonly verifyToken: Redacted.Redacted<string>
  readonly language: string
}

/** SMS by Termii. */
export interface TermiiSettings {
  /** Such as https://v3.api.termii.com. */
  readonly url: string
  readonly apiKey: Redacted.Redacted<string>
  /** The sender ID, 3 to 11 characters, that Termii approved. */
  readonly from: string
  /** Signs what Termii sends. */
  readonly secret: Redacted.Redacted<string>
}

/** E-mail. */
export interface SmtpSettings {
  /** smtp:// or smtps://, with user and password. */
  readonly url: Redacted.Redacted<string>
  /** The address that mail comes from. */
  readonly from: string
}

/** Who sends in live; what is not set up is undefined. */
export interface MessengerSettings {
  readonly whatsapp: WhatsAppSettings | undefined
  readonly termii: TermiiSettings | undefined
  readonly smtp: SmtpSettings | undefined
  /** Live channels that are not set up are simulated: never in production. */
  readonly simulateLive: boolean
}

/** How customers are reminded (decisions H4, H6). */
export interface Messaging extends MessengerSettings {
  /** Hours in Lagos in which automatic nudges wait in live; null: none. */
  readonly quietHours: QuietHours | null
}

export interface Config {
  readonly host: string
  readonly port: number
  /** Absent: the embedded Postgres under `dataDir`. */
  readonly databaseUrl: Redacted.Redacted<string> | undefined
  readonly dataDir: string
  /** Origin in links and `doc_url`, without a trailing slash. Absent: the address listened on. */
  readonly publicUrl: string | undefined
  readonly production: boolean
  /** Background workers in this process; 0 serves HTTP only. */
  readonly workers: number
  readonly transport: Transport
  readonly rateLimits: RateLimits
  readonly observability: Observability
  readonly webhooks: Webhooks
  readonly messaging: Messaging
}

/** A setting that stops the start; `message` is the one line to print. */
export class ConfigProblem extends Error {
  override readonly name = "ConfigProblem"
}

const OURS_WITHOUT_PREFIX = 64

/** Nobody is to be slowed down who tries the service on a machine of their own. */
const DEVELOPMENT_RATE = 10_000

type Env = Readonly<Record<string, string | undefined>>

const isLoopback = (host: string): boolean => host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host)

const text = (env: Env, name: string): string | undefined => {
  const value = env[name]?.trim()
  return value === undefined || value === "" ? undefined : value
}

const integer = (env: Env, name: string, least: number, most: number, otherwise: number): number => {
  const value = text(env, name)
  if (value === undefined) return otherwise
  if (!/^\d{1,6}$/.test(value) || Number(value) < least || Number(value) > most) {
    throw new ConfigProblem(`${name} must be a whole number from ${least} to ${most}, not "${value}".`)
  }
  return Number(value)
}

const flag = (env: Env, name: string, otherwise: boolean): boolean => {
  const value = text(env, name)
  if (value === undefined) return otherwise
  if (value !== "true" && value !== "false") throw new ConfigProblem(`${name} must be true or false, not "${value}".`)
  return value === "true"
}

const url = (env: Env, name: string, protocols: ReadonlyArray<string>): string | undefined => {
  const value = text(env, name)
  if (value === undefined) return undefined
  const parsed = URL.canParse(value) ? new URL(value) : undefined
  if (parsed === undefined || !protocols.includes(parsed.protocol)) {
    throw new ConfigProblem(`${name} must be a URL starting with ${protocols.map((p) => `${p}//`).join(" or ")}.`)
  }
  return value
}

const file = (env: Env, name: string): string | undefined => {
  const path = text(env, name)
  if (path === undefined) return undefined
  try {
    return readFileSync(path, "utf8")
  } catch {
    throw new ConfigProblem(`${name} names a file that cannot be read: ${path}.`)
  }
}

const transport = (env: Env, host: string, development: boolean, production: boolean): Transport => {
  const cert = file(env, "TLS_CERT")
  const key = file(env, "TLS_KEY")
  if ((cert === undefined) !== (key === undefined)) {
    throw new ConfigProblem("TLS_CERT and TLS_KEY go together: set both or neither.")
  }
  const allowInsecureHttp = flag(env, "ALLOW_INSECURE_HTTP", development && isLoopback(host))
  if (allowInsecureHttp && production)
    throw new ConfigProblem("ALLOW_INSECURE_HTTP is refused where NODE_ENV=production.")
  if (allowInsecureHttp && !isLoopback(host)) {
    throw new ConfigProblem(`ALLOW_INSECURE_HTTP is refused where HOST (${host}) is not a loopback address.`)
  }
  return {
    tls: cert !== undefined && key !== undefined ? { cert, key: Redacted.make(key) } : undefined,
    trustProxy: flag(env, "TRUST_PROXY", false),
    allowInsecureHttp,
    liveHost: text(env, "LIVE_HOST")?.toLowerCase(),
    sandboxHost: text(env, "SANDBOX_HOST")?.toLowerCase(),
  }
}

const LOG_LEVELS = { error: "Error", warn: "Warn", info: "Info", debug: "Debug" } as const

const choice = <const T extends string>(env: Env, name: string, among: ReadonlyArray<T>, otherwise: T): T => {
  const value = text(env, name)
  if (value === undefined) return otherwise
  const found = among.find((one) => one === value)
  if (found === undefined) throw new ConfigProblem(`${name} must be one of ${among.join(", ")}, not "${value}".`)
  return found
}

const observability = (env: Env, production: boolean): Observability => ({
  logLevel: LOG_LEVELS[choice(env, "LOG_LEVEL", ["error", "warn", "info", "debug"], production ? "info" : "warn")],
  logFormat: choice(env, "LOG_FORMAT", ["json", "text"], production ? "json" : "text"),
  otlpEndpoint: url(env, "OTEL_EXPORTER_OTLP_ENDPOINT", ["http:", "https:"])?.replace(/\/+$/, ""),
  metricsPort: text(env, "METRICS_PORT") === undefined ? undefined : integer(env, "METRICS_PORT", 0, 65_535, 0),
  metricsHost: text(env, "METRICS_HOST") ?? "127.0.0.1",
})

const webhooks = (env: Env, development: boolean, production: boolean): Webhooks => {
  const allowLoopback = flag(env, "ALLOW_LOOPBACK_WEBHOOKS", development)
  if (allowLoopback && production)
    throw new ConfigProblem("ALLOW_LOOPBACK_WEBHOOKS is refused where NODE_ENV=production.")
  const dnsServers = (text(env, "WEBHOOK_DNS_SERVERS") ?? "").split(",").filter(Boolean)
  const strange = dnsServers.find((server) => !/^(\d{1,3}(\.\d{1,3}){3}|\[[0-9a-f:]+\])(:\d{1,5})?$/i.test(server))
  if (strange !== undefined)
    throw new ConfigProblem(`WEBHOOK_DNS_SERVERS must be IP addresses such as 9.9.9.9 or [::1]:53, not "${strange}".`)
  return { allowLoopback, dnsServers }
}

/**
 * Reads and judges the environment. `development` is `npm start`'s profile: plain HTTP on loopback is allowed.
 * Throws {@link ConfigProblem}.
 */
/** A secret, from the variable or from the file that `NAME_FILE` names. */
const secret = (env: Env, name: string): Redacted.Redacted<string> | undefined => {
  const value = text(env, name) ?? file(env, `${name}_FILE`)?.trim()
  return value === undefined || value === "" ? undefined : Redacted.make(value)
}

/** Settings that only make sense together: all of them, or undefined where none is set. */
const together = <T extends Readonly<Record<string, unknown>>>(
  settings: T,
): { readonly [K in keyof T]: NonNullable<T[K]> } | undefined => {
  const missing = Object.keys(settings).filter((name) => settings[name] === undefined)
  if (missing.length === Object.keys(settings).length) return undefined
  if (missing.length > 0)
    throw new ConfigProblem(`${Object.keys(settings).join(", ")} go together: ${missing.join(", ")} is not set.`)
  return settings as { readonly [K in keyof T]: NonNullable<T[K]> }
}

const HOURS = /^(\d|1\d|2[0-3])-(\d|1\d|2[0-3])$/

const quietHours = (env: Env): QuietHours | null => {
  const value = text(env, "QUIET_HOURS") ?? "20-8"
  if (value === "off") return null
  const [, from, to] = HOURS.exec(value) ?? []
  if (from === undefined || to === undefined || from === to)
    throw new ConfigProblem(`QUIET_HOURS must be two different hours such as 20-8, or off, not "${value}".`)
  return { from: Number(from), to: Number(to) }
}

const messaging = (env: Env, production: boolean): Messaging => {
  const whatsapp = together({
    WHATSAPP_PHONE_NUMBER_ID: text(env, "WHATSAPP_PHONE_NUMBER_ID"),
    WHATSAPP_TOKEN: secret(env, "WHATSAPP_TOKEN"),
    WHATSAPP_APP_SECRET: secret(env, "WHATSAPP_APP_SECRET"),
    WHATSAPP_VERIFY_TOKEN: secret(env, "WHATSAPP_VERIFY_TOKEN"),
  })
  const termii = together({
    TERMII_API_KEY: secret(env, "TERMII_API_KEY"),
    TERMII_SECRET: secret(env, "TERMII_SECRET"),
    TERMII_SENDER: text(env, "TERMII_SENDER"),
  })
  const smtp = together({ SMTP_URL: secret(env, "SMTP_URL"), EMAIL_FROM: text(env, "EMAIL_FROM") })
  if (termii !== undefined && !/^[A-Za-z0-9 ]{3,11}$/.test(termii.TERMII_SENDER))
    throw new ConfigProblem("TERMII_SENDER must be 3 to 11 letters and digits.")
  if (smtp !== undefined && !/^smtps?:\/\/./.test(Redacted.value(smtp.SMTP_URL)))
    throw new ConfigProblem("SMTP_URL must begin with smtp:// or smtps://.")
  if (smtp !== undefined && !/^[^\s@<>]+@[^\s@<>]+$/.test(smtp.EMAIL_FROM))
    throw new ConfigProblem("EMAIL_FROM must be an e-mail address.")
  return {
    quietHours: quietHours(env),
    whatsapp: whatsapp && {
      url: url(env, "WHATSAPP_URL", ["http:", "https:"]) ?? "https://graph.facebook.com/v23.0",
      phoneNumberId: whatsapp.WHATSAPP_PHONE_NUMBER_ID,
      token: whatsapp.WHATSAPP_TOKEN,
      appSecret: whatsapp.WHATSAPP_APP_SECRET,
      verifyToken: whatsapp.WHATSAPP_VERIFY_TOKEN,
      language: text(env, "WHATSAPP_LANGUAGE") ?? "en",
    },
    termii: termii && {
      url: url(env, "TERMII_URL", ["http:", "https:"]) ?? "https://v3.api.termii.com",
      apiKey: termii.TERMII_API_KEY,
      secret: termii.TERMII_SECRET,
      from: termii.TERMII_SENDER,
    },
    smtp: smtp && { url: smtp.SMTP_URL, from: smtp.EMAIL_FROM },
    simulateLive: !production,
  }
}

export const readConfig = (env: Env, options: { readonly development: boolean }): Config => {
  const stray = Object.keys(env).find((name) => name.startsWith("BILLING_"))
  if (stray !== undefined)
    throw new ConfigProblem(`${stray.slice(0, OURS_WITHOUT_PREFIX)} is not a setting: docs/operating.md lists them.`)
  const environment = text(env, "NODE_ENV") ?? "development"
  const production = environment === "production"
  const development = options.development && !production
  const host = text(env, "HOST") ?? "127.0.0.1"
  if (host !== "localhost" && isIP(host) === 0)
    throw new ConfigProblem(`HOST must be an IP address or localhost, not "${host}".`)
  const databaseUrl = url(env, "DATABASE_URL", ["postgres:", "postgresql:"])
  if (production && databaseUrl === undefined) {
    throw new ConfigProblem(
      "DATABASE_URL is needed where NODE_ENV=production: the embedded Postgres is for development.",
    )
  }
  return {
    host,
    port: integer(env, "PORT", 0, 65_535, 3000),
    databaseUrl: databaseUrl === undefined ? undefined : Redacted.make(databaseUrl),
    dataDir: resolve(text(env, "DATA_DIR") ?? ".data"),
    publicUrl: url(env, "PUBLIC_URL", ["http:", "https:"])?.replace(/\/+$/, ""),
    production,
    workers: integer(env, "WORKERS", 0, 16, 1),
    transport: transport(env, host, development, production),
    observability: observability(env, production),
    webhooks: webhooks(env, development, production),
    messaging: messaging(env, production),
    rateLimits: {
      live: integer(env, "RATE_LIMIT_LIVE", 1, 100_000, development ? DEVELOPMENT_RATE : 100),
      sandbox: integer(env, "RATE_LIMIT_SANDBOX", 1, 100_000, development ? DEVELOPMENT_RATE : 50),
      public: integer(env, "RATE_LIMIT_PUBLIC", 1, 100_000, development ? DEVELOPMENT_RATE : 10),
    },
  }
}
