/**
 * Payments of a dry run (decision S1): charges are answered in the running transaction, by an assumption. Without one the simulator answers its
 * test methods as always, and other payments succeed.
 */
import { Effect } from "effect"
import { type NowOf, sameForAll } from "../../base/time.ts"
import type { Assumption } from "../../http/DryRun.ts"
import { LOCK_TIMEOUT_MS } from "../../postgres/lockWait.ts"
import { PaymentRail, type RailAnswer } from "../../rails/rail/PaymentRail.ts"
import { isOutside } from "../../rails/rail/Rail.ts"
import { NewestRows } from "../../runtime/outcome.ts"
import type { ChargeRow } from "../charge/charge.ts"
import type { Payments } from "./Payments.ts"
import { settle } from "./settle.ts"
import {
  answeredAt,
  type Codes,
  type CollectServices,
  MAX_ROUNDS,
  NO_CODES,
  NO_METHOD,
  toRail,
} from "./simulatorCharges.ts"

const ASSUMED: Readonly<Record<Assumption, RailAnswer>> = {
  success: { type: "rail.succeeded" },
  failure: { type: "rail.failed", code: "insufficient_funds", message: null },
}

/** The answer that a charge gets under an assumption. Without a payment method it fails. */
export const assumedAnswer = ({ payment_method }: ChargeRow, assume: Assumption): RailAnswer =>
  payment_method === null ? NO_METHOD : ASSUMED[assume]

/** Returns the answers of charges, by ID. A buyer who has to enter a payment method on a rail's page has not done so. */
const answersOf = Effect.fnUntraced(function* (
  of: ReadonlyArray<ChargeRow>,
  nowOf: NowOf,
  assume: Assumption | undefined,
  codes: Codes,
) {
  const simulated =
    assume === undefined ? of.filter(({ rail, payment_method }) => !isOutside(rail) && payment_method !== null) : []
  const answers =
    simulated.length === 0
      ? []
      : yield* (yield* PaymentRail).charge(simulated.map((charge) => toRail(charge, nowOf(charge), codes)))
  const byId = new Map(simulated.map(({ id }, index) => [id, answers[index]!]))
  return (charge: ChargeRow): RailAnswer => byId.get(charge.id) ?? assumedAnswer(charge, assume ?? "success")
})

/** Makes the payments of a dry run. */
export const assumedPayments = (assume: Assumption | undefined) =>
  Effect.map(Effect.context<CollectServices>(), (context): Payments["Service"] => ({
    collect: (of, now, codes = NO_CODES) =>
      Effect.gen(function* () {
        const rows = new NewestRows()
        const nowOf = sameForAll(now)
        let next = of.filter(({ hosted }) => !hosted)
        for (let round = 0; next.length > 0 && round < MAX_ROUNDS; round++) {
          const answerOf = yield* answersOf(next, nowOf, assume, codes)
          const answered = next.map((charge) => ({ charge, answer: answerOf(charge), at: answeredAt(charge, nowOf) }))
          const { outcomes, attempts, following } = yield* settle(answered, nowOf, LOCK_TIMEOUT_MS)
          rows.note(outcomes)
          for (const { subscription_id } of following) if (subscription_id !== null) rows.forget(subscription_id)
          next = [...attempts, ...following]
        }
        return rows
      }).pipe(Effect.provide(context)),
  }))
