/** Checks every submission before anything is charged or saved. */
import { Effect } from "effect"
import { formatKobo } from "../../base/money.ts"
import { declined, problem } from "../../base/problem.ts"
import type { ChargeRow } from "../../billing/charge/charge.ts"
import type { Codes } from "../../billing/payments/simulatorCharges.ts"
import { PaymentRail } from "../../rails/rail/PaymentRail.ts"
import type { Submission } from "./submission.ts"

/** Most payment attempts on one page: more is card testing. */
export const MAX_ATTEMPTS = 50

export const tooManyAttempts = problem(
  "too_many_attempts",
  `${MAX_ATTEMPTS} payments were tried on this page: it takes no more.`,
)

/** Fails unless the amount due is the amount that the buyer saw. */
export const checkShown = (shown: number | null, dueKobo: number) =>
  shown === null || shown === dueKobo
    ? Effect.void
    : Effect.fail(problem("amount_changed", `What is due now is ${formatKobo(dueKobo)}.`, "amount"))

/** Fails if the method needs a one-time code that is missing, or that is wrong and nothing is charged. */
export const checkCode = Effect.fnUntraced(function* ({ methodId, code }: Submission, dueKobo: number) {
  if (methodId === null) return
  const objection = (yield* PaymentRail).objection(methodId, code)
  if (objection === "authentication_required")
    return yield* declined(objection, "The bank asks for a one-time code: send it as otp.")
  if (objection !== null && dueKobo === 0) return yield* declined(objection, "The one-time code is not right.")
})

/** Returns the typed one-time code for each of these charges. */
export const codesFor = (charges: ReadonlyArray<ChargeRow>, { code }: Submission): Codes =>
  new Map(code === null ? [] : charges.map(({ id }) => [id, code]))
