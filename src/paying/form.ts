/** The form of a page on which buyers pay, and what it shows again after a submission that did not go through. Pure. */
import type { PaymentForm, TypedDetails } from "../pages/views.ts"
import { declineInWords } from "./declines.ts"
import { newSubmissionNumber } from "./page.ts"
import type { Fault } from "./submission.ts"

/** What a form shows beside what it always does. */
export interface FormState {
  readonly errors?: PaymentForm["errors"]
  readonly refusal?: string | null
  readonly asksOtp?: boolean
  /** The ID of the payment method that is ticked. */
  readonly chosen?: string
  /** The buyer's details as they were typed. */
  readonly typed?: TypedDetails
}

type Given = Pick<PaymentForm, "amountKobo" | "purpose" | "details" | "saved" | "takesCards">

/** The form of the page at `path`. */
export const formOf = (path: string, given: Given, state: FormState): PaymentForm => ({
  ...given,
  action: `${path}/complete`,
  submission: newSubmissionNumber(),
  details: given.details === null ? null : (state.typed ?? given.details),
  chosen: state.chosen ?? null,
  asksOtp: state.asksOtp ?? false,
  errors: state.errors ?? [],
  refusal: state.refusal ?? null,
})

/** Each fault at its field. */
export const faultsShown = (faults: ReadonlyArray<Fault>): Pick<FormState, "errors"> => ({
  errors: faults.map(({ field, problem: { message } }) => ({ field, message })),
})

/** After a decline: a one-time code is asked for with everything else kept. `more`: what else there is to say. */
export const declineShown = (code: string | null, methodId: string, more?: string): FormState => ({
  refusal: code === "authentication_required" ? null : [declineInWords(code), more].filter((words) => words).join(" "),
  ...(code === "authentication_required" || code === "authentication_failed"
    ? { asksOtp: true, chosen: methodId }
    : {}),
})
