/** Waiting for what becomes of a payment that somebody else's request has under way. */
import { Effect } from "effect"
import { formatKobo } from "../../base/money.ts"
import { formatInstant } from "../../base/time.ts"
import { type ChargeRow, charges } from "../../billing/charge/charge.ts"
import { TenantDatabase } from "../../db/TenantDatabase.ts"
import type { Tenant } from "../../db/tenant.ts"

/** A card is decided within seconds. What a dead process left is finished later (src/billing/payments). */
const MAX_WAIT_MS = 8_000
const LOOK_AGAIN_MS = 100

/** When a request from a page that begins now stops waiting. */
export const pageWaitingLimit = (): number => performance.now() + MAX_WAIT_MS

/** The rail is being talked to at this moment; of what it takes its time over, nobody waits for the outcome. */
const isBeingTalkedOf = ({ state }: ChargeRow): boolean => state === "pending.sending" || state === "pending.asking"

/** Waits while the rail is being talked to about a charge, or until `limit`; returns it as it is then. */
export const waitForCharge = Effect.fnUntraced(function* (tenant: Tenant, id: string, limit: number) {
  const { reading } = yield* TenantDatabase
  for (;;) {
    const charge = yield* reading(tenant, charges.get(tenant, id))
    if (!isBeingTalkedOf(charge) || performance.now() >= limit) return charge
    yield* Effect.sleep(LOOK_AGAIN_MS)
  }
})

/** What was paid, when and with what, in words. */
export const paymentInWords = ({ amount_kobo, paid_at, payment_method: method, id, refund_due }: ChargeRow): string => {
  const how =
    method === null
      ? ""
      : ` with the ${method.type.replace("_", " ")}${method.last4 === null ? "" : ` ending ${method.last4}`}`
  const back = refund_due ? ", and is owed back" : ""
  return `${formatKobo(amount_kobo)} was paid${paid_at === null ? "" : ` at ${formatInstant(paid_at)}`}${how} (${id})${back}`
}
