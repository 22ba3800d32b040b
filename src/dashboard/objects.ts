/** The pages of objects, by their IDs. */
import { type IdKind, isPlanCode, kindOf } from "../base/ids.ts"
import type { Environment } from "../pages/dashboard/frame.ts"

/** The folder of an object's page under `/dashboard/{environment}`, by its kind. */
const FOLDERS: Readonly<Partial<Record<IdKind, string>>> = {
  customer: "customers",
  subscription: "subscriptions",
  plan: "plans",
  charge: "charges",
  checkout_session: "checkout-sessions",
  nudge: "nudges",
  webhook_endpoint: "webhooks",
  event: "events",
  request: "requests",
  test_clock: "clocks",
  invoice: "invoices",
}

/** The path of an object's page; null: it has none. */
export const pathOfObject = (id: string | null, environment: Environment): string | null => {
  if (id === null) return null
  const kind = kindOf(id)
  const folder = isPlanCode(id) ? "instalments" : kind === undefined ? undefined : FOLDERS[kind]
  return folder === undefined ? null : `/dashboard/${environment}/${folder}/${id}`
}
