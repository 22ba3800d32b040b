/** The common parts of two providers' protocols for a server: calls, replies, callbacks. */
import type { Books } from "./books.ts"
import type { CallKind } from "./fault.ts"
import type { Happening, Numbering, Outcome, Transaction } from "./transaction.ts"

/** A merchant's account at a rail. */
export interface Merchant {
  secretKey: string
  webhookSecret: string
  readonly books: Books
  /** The address for callbacks. null: none are sent. */
  callbackUrl: string | null
}

export interface Request {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly body: Readonly<Record<string, unknown>>
  readonly books: Books
  /** The stand-in's address. */
  readonly origin: string
  /** Milliseconds since the epoch. */
  readonly now: number
}

export interface Reply {
  readonly status: number
  readonly body: unknown
}

/** A parsed call, not executed yet. */
export interface ParsedCall {
  readonly kind: CallKind
  readonly reference: string
  readonly amountKobo: number | null
  /** Executes it in the books, by the outcome, and returns the true answer. */
  readonly perform: (outcome?: Outcome) => Reply
}

/** The body that a rail posts to the merchant, before it is signed. */
export interface Announcement {
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
  readonly [more: string]: unknown
}

/** A callback as it is sent. */
export interface Callback {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The buyer's action on the rail's page. */
export type Act = "pay" | "decline" | "leave"

/** The schemes for signing callbacks. Flutterwave has both, Paystack the first. */
export type Signature = "hmac" | "hash"

export interface Wire {
  readonly numbering: Numbering
  /** A reference as it is on the wire, from that form or ours. */
  readonly spelling: (reference: string) => string
  readonly understand: (request: Request) => ParsedCall | undefined
  readonly unauthorized: Reply
  readonly notFound: Reply
  readonly tooMany: Reply
  readonly unavailable: (status: number) => Reply
  /** The address to which the page sends the buyer. */
  readonly returnTo: (transaction: Transaction, act: Act) => string | null
  /** The announcement. undefined: the rail announces nothing. */
  readonly announce: (happening: Happening, now: number) => Announcement | undefined
  readonly sign: (merchant: Merchant, body: string, signature: Signature) => Readonly<Record<string, string>>
}

/** Writes a BigInt as the JSON number it is. The standard library's types lack `rawJSON`. */
const { rawJSON } = JSON as unknown as { readonly rawJSON: (text: string) => unknown }

export const encode = (body: unknown): string =>
  JSON.stringify(body, (_, value) => (typeof value === "bigint" ? rawJSON(String(value)) : value))

type Reviver = (key: string, value: unknown, context: { readonly source: string }) => unknown

/** Reads whole numbers beyond 2^53 as BigInt. Returns an object without fields for anything but a JSON object. */
export const decode = (text: string): Readonly<Record<string, unknown>> => {
  const exact: Reviver = (_, value, { source }) =>
    typeof value === "number" && /^\d+$/.test(source) && !Number.isSafeInteger(value) ? BigInt(source) : value
  try {
    const read: unknown = JSON.parse(text, exact as (key: string, value: unknown) => unknown)
    return typeof read === "object" && read !== null ? (read as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

export const textOf = (value: unknown): string => (typeof value === "string" ? value : "")

/** An address with more in its query. null stays null. */
export const withQuery = (url: string | null, more: Readonly<Record<string, string>>): string | null => {
  if (url === null || !URL.canParse(url)) return url
  const whole = new URL(url)
  for (const [name, value] of Object.entries(more)) whole.searchParams.set(name, value)
  return whole.href
}

export const instant = (ms: number): string => new Date(ms).toISOString()
