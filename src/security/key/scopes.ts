/** The scopes of restricted keys (decision J2): one table for the check, its message and the documents. */
import { Struct } from "effect"

export const SCOPES = {
  plans: "plans",
  customers: "customers and their payment method summaries",
  subscriptions: "subscriptions, including pause, resume, cancel and reported units",
  charges: "charges and manual retries",
  checkout_sessions: "hosted checkout sessions",
  nudges: "sending and listing nudges",
  webhooks: "webhook endpoints and events",
  usage: "usage and the service invoices (read only)",
  provider_savings: "instalment purchase plans",
} as const

export type Scope = keyof typeof SCOPES
export type Level = "read" | "write"
export type Scopes = Readonly<Partial<Record<Scope, Level>>>

export const SCOPE_NAMES = Struct.keys(SCOPES)

/** The levels that a key can have of a scope. */
export const levelsOf = (scope: Scope) =>
  scope === "usage" ? (["none", "read"] as const) : (["none", "read", "write"] as const)

/** Whether scopes allow a call; write includes read. */
export const reaches = (scopes: Scopes, scope: Scope, level: Level): boolean =>
  scopes[scope] === "write" || (level === "read" && scopes[scope] === "read")
