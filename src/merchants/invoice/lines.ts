/** Computes the lines of a month's invoice (decisions K2, K4, K7). Pure. */
import { shareOf } from "../../../machines/billing.ts"
import type { ApiPlan } from "../../base/apiPlans.ts"
import { formatKobo } from "../../base/money.ts"
import { dayInWords, monthInWords, SECOND_MS } from "../../base/time.ts"
import { ALLOWANCES, nudgeOverage, WRITE_BLOCK, WRITE_BLOCK_KOBO, writeOverage } from "../usage/allowances.ts"

export const INVOICE_LINE_TYPES = ["plan_fee", "write_request_overage", "nudge_overage", "proration", "credit"] as const

export interface InvoiceLine {
  readonly type: (typeof INVOICE_LINE_TYPES)[number]
  readonly description: string
  readonly quantity: number
  /** Kobo, like `amount`. */
  readonly unit_amount: number
  readonly amount: number
}

export interface Month {
  readonly start: number
  readonly end: number
  /** The plan at the month's start. */
  readonly plan: ApiPlan
  /** Changes within the month, in order of time. */
  readonly changes: ReadonlyArray<{ readonly at: number; readonly to: ApiPlan }>
  readonly writes: number
  readonly nudges: number
}

const NAMES: Readonly<Record<ApiPlan, string>> = {
  starter: "Starter",
  growth: "Growth",
  scale: "Scale",
  enterprise: "Enterprise",
}

const line = (type: InvoiceLine["type"], description: string, quantity: number, unit_amount: number): InvoiceLine => ({
  type,
  description,
  quantity,
  unit_amount,
  amount: quantity * unit_amount,
})

/** Returns the lines of a month's invoice. Overage is charged by the plan in force at the end of the month. */
export const invoiceLines = ({ start, end, plan, changes, writes, nudges }: Month): ReadonlyArray<InvoiceLine> => {
  const lines = [line("plan_fee", `${NAMES[plan]} plan, ${monthInWords(start)}`, 1, ALLOWANCES[plan].feeKobo)]
  let before = plan
  for (const { at, to } of changes) {
    const difference = ALLOWANCES[to].feeKobo - ALLOWANCES[before].feeKobo
    const restSeconds = Math.floor((end - at) / SECOND_MS)
    const amount = shareOf(difference, restSeconds, (end - start) / SECOND_MS)
    lines.push(line("proration", `${NAMES[before]} to ${NAMES[to]} from ${dayInWords(at)}`, 1, amount))
    before = to
  }
  const allowance = ALLOWANCES[before]
  const { blocks } = writeOverage(writes, allowance)
  if (blocks > 0)
    lines.push(
      line("write_request_overage", `Writes beyond ${allowance.writes}, per ${WRITE_BLOCK}`, blocks, WRITE_BLOCK_KOBO),
    )
  const over = nudgeOverage(nudges, allowance)
  if (over.overage > 0) {
    const full = line("nudge_overage", `Nudges beyond ${allowance.nudges}`, over.overage, allowance.nudgeKobo)
    lines.push(full)
    if (over.amountKobo < full.amount) {
      const cap = `Nudges cost at most ${formatKobo(allowance.nudgeCapKobo!)} a month`
      lines.push(line("credit", cap, 1, over.amountKobo - full.amount))
    }
  }
  return lines
}
