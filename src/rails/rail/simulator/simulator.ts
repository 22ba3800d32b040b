/** The simulator is the rail of the sandbox. The payment method alone decides the outcome of a charge. */
import { Effect, Layer } from "effect"
import { PaymentRail, type RailAnswer, type RailCharge } from "../PaymentRail.ts"
import { type Attempt, Attempts } from "./Attempts.ts"
import { type Behaviour, countsUses, objectionOf, TEST_METHODS } from "./methods.ts"

const behaviourOf = (charge: RailCharge): Behaviour => {
  const method = TEST_METHODS.get(charge.paymentMethod.id)
  if (method === undefined) throw new Error(`Not a test payment method: ${charge.paymentMethod.id}`)
  return method.behaviour
}

const attemptOf = (charge: RailCharge, uses: number): Attempt => {
  const { answers, outcome } = behaviourOf(charge)
  const decided = outcome(charge.attemptNumber, uses, charge.code)
  return {
    outcome: decided.status,
    code: decided.status === "failed" ? decided.code : null,
    knownAt: typeof answers === "object" ? charge.at + answers.afterMs : null,
  }
}

const answerOf = (attempt: Attempt, at: number): RailAnswer => {
  if (attempt.knownAt !== null && attempt.knownAt > at) return { type: "rail.unsettled", knownAt: attempt.knownAt }
  if (attempt.outcome === "succeeded") return { type: "rail.succeeded" }
  if (attempt.outcome === "not_found") return { type: "rail.not_found" }
  return { type: "rail.failed", code: attempt.code!, message: `Simulated: ${attempt.code!.replaceAll("_", " ")}.` }
}

export const simulatorLayer: Layer.Layer<PaymentRail, never, Attempts> = Layer.effect(
  PaymentRail,
  Effect.gen(function* () {
    const attempts = yield* Attempts
    return PaymentRail.of({
      objection: objectionOf,
      charge: (charges) => {
        const counted = charges.filter(({ paymentMethod }) => countsUses(paymentMethod.id))
        const work = Effect.gen(function* () {
          const uses = new Map<string, number>()
          const before = counted.length === 0 ? [] : yield* attempts.uses(counted)
          // Charges of one customer in one batch count one after the other.
          const counts = new Map<string, number>()
          for (const [index, charge] of counted.entries()) {
            const key = `${charge.customerId} ${charge.paymentMethod.id}`
            const earlier = counts.get(key) ?? 0
            counts.set(key, earlier + 1)
            uses.set(charge.reference, before[index]! + earlier)
          }
          const attempted = charges.map((charge) => ({
            charge,
            attempt: attemptOf(charge, uses.get(charge.reference) ?? 0),
          }))
          yield* attempts.note(attempted)
          return attempted.map(
            ({ charge, attempt }): RailAnswer =>
              behaviourOf(charge).answers === "only_when_asked"
                ? { type: "rail.unsettled", knownAt: null }
                : answerOf(attempt, charge.at),
          )
        })
        return counted.length === 0 ? work : attempts.alone(counted, work)
      },
      ask: (charges) =>
        Effect.map(attempts.find(charges), (found) =>
          found.map(
            (attempt, index): RailAnswer =>
              attempt === undefined ? { type: "rail.not_found" } : answerOf(attempt, charges[index]!.at),
          ),
        ),
    })
  }),
)
