/** The types of a process's settings (docs/operating.md lists them). */
import type { BlockList } from "node:net"
import { Data, type Redacted } from "effect"
import type { QuietHours } from "../../machines/reminders.ts"

/** How requests reach the service: it decides which requests count as HTTPS (decision A2) and the environment of each host (A1). */
export interface Transport {
  readonly tls: { readonly cert: string; readonly key: Redacted.Redacted<string> } | undefined
  /** The peers whose X-Forwarded headers are trusted: all (true), none (false), or those in these networks. */
  readonly trustProxy: boolean | BlockList
  readonly allowInsecureHttp: boolean
  readonly liveHost: string | undefined
  readonly sandboxHost: string | undefined
}

/** Sustained requests per second; a burst is twice that (decision J6). */
export interface RateLimits {
  readonly live: number
  readonly sandbox: number
  /** For each address, at pages that need no key. */
  readonly public: number
  /** Instalment plans that an address may start in an hour (decision L3). */
  readonly instalmentPlans: number
}

/** Logs, metrics and traces for the operator (docs/operating.md). */
export interface Observability {
  readonly logLevel: "Error" | "Warn" | "Info" | "Debug"
  readonly logFormat: "json" | "text"
  /** The destination of traces, metrics and logs by OTLP over HTTP; absent: none. */
  readonly otlpEndpoint: string | undefined
  /** Port of GET /metrics on `metricsHost`; absent: not served. */
  readonly metricsPort: number | undefined
  readonly metricsHost: string
}

/** The allowed destinations of webhooks (decision I4). */
export interface Webhooks {
  readonly allowLoopback: boolean
  /** DNS servers to ask instead of the system's. */
  readonly dnsServers: ReadonlyArray<string>
}

/** WhatsApp by the Cloud API. */
export interface WhatsAppSettings {
  /** For example https://graph.facebook.com/v23.0. */
  readonly url: string
  readonly phoneNumberId: string
  readonly token: Redacted.Redacted<string>
  /** Signs the callbacks from Meta. */
  readonly appSecret: Redacted.Redacted<string>
  /** The token that Meta sends when it verifies the callback's address. */
  readonly verifyToken: Redacted.Redacted<string>
  readonly language: string
}

/** SMS by Termii. */
export interface TermiiSettings {
  /** For example https://v3.api.termii.com. */
  readonly url: string
  readonly apiKey: Redacted.Redacted<string>
  /** The sender ID, 3 to 11 characters, that Termii approved. */
  readonly from: string
  /** Signs the callbacks from Termii. */
  readonly secret: Redacted.Redacted<string>
}

/** E-mail. */
export interface SmtpSettings {
  /** smtp:// or smtps://, with user and password. */
  readonly url: Redacted.Redacted<string>
  /** The address that mail comes from. */
  readonly from: string
}

/** The messengers that send in live; undefined if not configured. */
export interface MessengerSettings {
  readonly whatsapp: WhatsAppSettings | undefined
  readonly termii: TermiiSettings | undefined
  readonly smtp: SmtpSettings | undefined
  /** Whether live channels that are not configured are simulated: never in production. */
  readonly simulateLive: boolean
}

/** How reminders are sent to customers (decisions H4, H6). */
export interface Messaging extends MessengerSettings {
  /** Hours in Lagos in which automatic nudges wait in live; null: none. */
  readonly quietHours: QuietHours | null
}

/** The addresses of the rails' APIs, and the timeout of calls (decision P3). */
export interface RailSettings {
  /** Without a trailing slash. */
  readonly urls: { readonly paystack: string; readonly flutterwave: string }
  /** How long one call may take. */
  readonly timeoutMs: number
}

/** The sender of the service's invoices, and how to pay them; undefined if not set. */
export interface Seller {
  readonly name: string
  readonly address: string | undefined
  /** Its tax identification number. */
  readonly tin: string | undefined
  /** The address for questions. */
  readonly email: string | undefined
  /** The bank account that receives payments, in words. */
  readonly bank: string | undefined
}

/** A key of 32 bytes that encrypts secrets at rest. */
export type EncryptionKey = Redacted.Redacted<Uint8Array>

/** Every setting of a process, validated. */
export interface Config {
  /** The process's cell in a deployment of several cells: two base62 characters (decision O1). */
  readonly cell: string
  readonly host: string
  readonly port: number
  /** Absent: the embedded Postgres under `dataDir`. */
  readonly databaseUrl: Redacted.Redacted<string> | undefined
  readonly dataDir: string
  /** Newest first: the first encrypts, all decrypt. Absent: the key in `dataDir`. */
  readonly encryptionKeys: ReadonlyArray<EncryptionKey> | undefined
  /** Origin in links and `doc_url`, without a trailing slash. Absent: the address that the server listens on. */
  readonly publicUrl: string | undefined
  readonly production: boolean
  /** Background workers in this process; 0 serves HTTP only. */
  readonly workers: number
  /** VAT included in prices, in basis points. */
  readonly vatBps: number
  readonly transport: Transport
  readonly rateLimits: RateLimits
  /** Limit of requests of one account and environment under way in a process (decision J6). */
  readonly inFlight: number
  readonly observability: Observability
  readonly webhooks: Webhooks
  readonly messaging: Messaging
  readonly rails: RailSettings
  readonly seller: Seller
}

/** A wrong setting, or a wrong file or address in one, that stops the start. `message` is the line to print. */
export class ConfigProblem extends Data.TaggedError("ConfigProblem")<{ readonly message: string }> {}
