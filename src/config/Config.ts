/** The settings of a process (docs/operating.md lists them). */
import type { BlockList } from "node:net"
import { Data, type Redacted } from "effect"
import type { QuietHours } from "../../machines/reminders.ts"

/** How requests reach us: decides what counts as HTTPS (decision A2) and which host is which environment (A1). */
export interface Transport {
  readonly tls: { readonly cert: string; readonly key: Redacted.Redacted<string> } | undefined
  /** Whose X-Forwarded headers are believed: every peer's, nobody's, or those of peers in these networks. */
  readonly trustProxy: boolean | BlockList
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
  /** Instalment plans that an address may begin in an hour (decision L3). */
  readonly instalmentPlans: number
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
  /** What Meta sends when it checks the callback's address. */
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

/** Where the rails' APIs are (decision P3). */
export interface RailSettings {
  /** Without a trailing slash. */
  readonly urls: { readonly paystack: string; readonly flutterwave: string }
  /** How long one call may take. */
  readonly timeoutMs: number
}

/** Who sends the service's invoices, and how they are paid: what is not set is undefined. */
export interface Seller {
  readonly name: string
  readonly address: string | undefined
  /** Its tax identification number. */
  readonly tin: string | undefined
  /** Where questions go. */
  readonly email: string | undefined
  /** The bank account that is paid into, in words. */
  readonly bank: string | undefined
}

/** 32 bytes under which secrets are encrypted at rest. */
export type EncryptionKey = Redacted.Redacted<Uint8Array>

/** Every setting of a process, validated. */
export interface Config {
  /** Two base62 characters: where in a deployment of several cells this process belongs (decision O1). */
  readonly cell: string
  readonly host: string
  readonly port: number
  /** Absent: the embedded Postgres under `dataDir`. */
  readonly databaseUrl: Redacted.Redacted<string> | undefined
  readonly dataDir: string
  /** Newest first: it encrypts, all decrypt. Absent: the key that is kept in `dataDir`. */
  readonly encryptionKeys: ReadonlyArray<EncryptionKey> | undefined
  /** Origin in links and `doc_url`, without a trailing slash. Absent: the address listened on. */
  readonly publicUrl: string | undefined
  readonly production: boolean
  /** Background workers in this process; 0 serves HTTP only. */
  readonly workers: number
  /** The VAT that prices include, in basis points. */
  readonly vatBps: number
  readonly transport: Transport
  readonly rateLimits: RateLimits
  /** Requests of an account and environment that a process works on at once (decision J6). */
  readonly inFlight: number
  readonly observability: Observability
  readonly webhooks: Webhooks
  readonly messaging: Messaging
  readonly rails: RailSettings
  readonly seller: Seller
}

/** A setting, or what one names, that stops the start; `message` is the one line to print. */
export class ConfigProblem extends Data.TaggedError("ConfigProblem")<{ readonly message: string }> {}
