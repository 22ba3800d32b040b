/** Tests that an instalment plan's books balance to the kobo after any events in any order. Pure. */
import fc from "fast-check"
import { expect, it } from "vitest"
import { stateName } from "../../machines/decide.ts"
import type { ChargeRow } from "../../src/billing/charge/charge.ts"
import { outcomeOf } from "../../src/buying/instalment/outcome.ts"
import { depositedKobo, type InstalmentPlanRow, instalmentPlans } from "../../src/buying/instalment/plan.ts"
import type { NewEvent } from "../../src/outbound/event/events.ts"
import { EXAMPLES, inputs, moves, start, step } from "../support/instalmentModel.ts"

const VAT_BPS = 750

it("keeps each deposit until delivery or return, and takes VAT on sales", () => {
  const met = new Set<string>()
  fc.assert(
    fc.property(inputs, fc.array(moves, { minLength: 5, maxLength: 50, size: "max" }), (input, steps) => {
      let world = start(input)
      const made = (snapshot: typeof world.snapshot, version: number): InstalmentPlanRow =>
        instalmentPlans.withSnapshot(
          {
            account_id: "acct_1",
            livemode: true,
            id: "SB-1",
            customer_id: "cus_1",
            created_at: input.at,
            version,
          } as InstalmentPlanRow,
          stateName(snapshot),
          snapshot.context,
        )
      const balances = new Map<string, number>()
      const keys = new Set<string>()
      let charged = 0
      let done = 0
      for (const move of steps) {
        world = step(world, move)
        for (const { event, before, decision } of world.decisions.slice(done)) {
          const paid = event.type === "payment.succeeded" ? event : undefined
          const charge = { id: paid?.chargeId, amount_kobo: paid?.amountKobo, rail: "paystack" } as ChargeRow
          if (paid !== undefined) charged += paid.amountKobo
          const { row, outcome } = outcomeOf(
            {
              row: made(before, done),
              event,
              decision,
              from: stateName(before),
              to: stateName(decision.snapshot),
              version: ++done,
            },
            {
              nowOf: () => event.at,
              vatBps: VAT_BPS,
              settled: paid === undefined ? new Map() : new Map([["SB-1", { charge, event: {} as NewEvent }]]),
              notes: new Map(),
              addressees: new Map(),
              quietOf: () => null,
              token: ({ id }) => id,
            },
          )
          for (const entry of outcome.entries) {
            met.add(entry.event)
            expect(keys.has(entry.idempotencyKey)).toBe(false)
            keys.add(entry.idempotencyKey)
            expect(entry.lines.reduce((sum, { amountKobo }) => sum + amountKobo, 0)).toBe(0)
            for (const { account, amountKobo } of entry.lines)
              balances.set(account, (balances.get(account) ?? 0) + amountKobo)
          }
          const of = (account: string): number => balances.get(account) ?? 0
          const ended = row.status === "delivered" || row.status === "cancelled"
          expect(of("clearing")).toBe(charged)
          expect(0 - of("buyer_deposits")).toBe(ended ? 0 : depositedKobo(row))
          if (row.status === "delivered") {
            const sold = 0 - of("goods_revenue") - of("output_vat")
            expect(sold).toBe(depositedKobo(row))
            expect(0 - of("output_vat")).toBe(Math.round((sold * VAT_BPS) / (10_000 + VAT_BPS)))
          }
          if (row.status === "cancelled") {
            const fee = 0 - of("cancellation_fees")
            expect(fee).toBe(Math.min(row.pending_fee_kobo, depositedKobo(row)))
            expect(0 - of("refunds_payable")).toBe(charged - fee)
          }
        }
      }
    }),
    { numRuns: 400, examples: EXAMPLES },
  )
  expect([...met].sort()).toEqual(["deposit_cancelled", "deposit_paid", "goods_delivered", "refund_due"])
})
