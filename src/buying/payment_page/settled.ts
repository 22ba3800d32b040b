/** Waits for a payment that another request has in progress. */
import { Effect } from "effect"
import { formatKobo } from "../../base/money.ts"
import { formatInstant } from "../../base/time.ts"
import { type ChargeRow, charges } from "../../billing/charge/charge.ts"
import { TenantDatabase } from "../../db/TenantDatabase.ts"
import type { Tenant } from "../../db/tenant.ts"

/** A card is decided within seconds. A payment that a dead process left is finished later (src/billing/payments). */
const MAX_WAIT_MS = 8_000
const LOOK_AGAIN_MS = 100

/** Returns when a page request that starts now stops waiting (`performance.now()`). */
export const pageWaitingLimit = (): number => performance.now() + MAX_WAIT_MS

/** Whether a call to the rail is running. Requests do not wait for a rail that takes longer. */
const isCallRunning = ({ state }: ChargeRow): boolean => state === "pending.sending" || state === "pending.asking"

/** Waits while a rail call for the charge runs, at most until `limit`; returns the charge after that. */
export const waitForCharge = Effect.fnUntraced(function* (tenant: Tenant, id: string, limit: number) {
  const { reading } = yield* TenantDatabase
  for (;;) {
    const charge = yield* reading(tenant, charges.get(tenant, id))
    if (!isCallRunning(charge) || performance.now() >= limit) return charge
    yield* Effect.sleep(LOOK_AGAIN_MS)
  }
})

/** Describes what was paid, when and with which method. */
export const paymentInWords = ({ amount_kobo, paid_at, payment_method: method, id, refund_due }: ChargeRow): string => {
  const how =
    method === null
      ? ""
      : ` with the ${method.type.replace("_", " ")}${method.last4 === null ? "" : ` ending ${method.last4}`}`
  const back = refund_due ? ", and is owed back" : ""
  return `${formatKobo(amount_kobo)} was paid${paid_at === null ? "" : ` at ${formatInstant(paid_at)}`}${how} (${id})${back}`
}
