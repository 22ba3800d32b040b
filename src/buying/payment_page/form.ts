/** The form of a page on which buyers pay, and what it shows again after a submission that did not go through. */
import type { PaymentForm } from "../../pages/views.ts"
import { asksForCode, type Declined, declineInWords } from "./declines.ts"
import { newSubmissionNumber } from "./fields.ts"
import type { Fault, Fields, TypedFields } from "./submission.ts"

/** What a form shows beside what it always does. */
export interface FormState {
  readonly errors?: PaymentForm["errors"]
  readonly refusal?: string | null
  readonly asksOtp?: boolean
  /** The ID of the payment method that is ticked. */
  readonly chosen?: string
  /** The fields as they were typed. */
  readonly typed?: TypedFields
}

type Given = Pick<PaymentForm, "amountKobo" | "purpose" | "details" | "saved" | "takesCards"> & {
  readonly chooses?: PaymentForm["chooses"]

  /** Whether the rail needs an e-mail address of a known customer. */
  readonly asksEmail: boolean
}

/** The method that is ticked, where it is one of those to choose from; with a one-time code, whichever it is for. */
const chosenOf = (saved: PaymentForm["saved"], { chosen, asksOtp = false }: FormState): string | null =>
  chosen !== undefined && (asksOtp || saved.some(({ id }) => id === chosen)) ? chosen : null

/** The form of the page at `path`. */
export const formOf = (
  path: string,
  { asksEmail, chooses = null, ...given }: Given,
  state: FormState,
): PaymentForm => ({
  ...given,
  chooses: chooses === null ? null : { ...chooses, value: state.typed?.amount ?? chooses.value },
  email: asksEmail ? (state.typed?.email ?? "") : null,
  action: `${path}/complete`,
  submission: newSubmissionNumber(),
  details: given.details === null ? null : (state.typed ?? given.details),
  chosen: chosenOf(given.saved, state),
  asksOtp: state.asksOtp ?? false,
  errors: state.errors ?? [],
  refusal: state.refusal ?? null,
})

/** Each fault at its field. */
export const faultsShown = (faults: ReadonlyArray<Fault>): Pick<FormState, "errors"> => ({
  errors: faults.map(({ field, problem: { message } }) => ({ field, message })),
})

/** The payment method that the buyer had ticked stays so; one whose card was typed does not become it. */
export const tickedOf = ({ payment_method: ticked }: Fields): Pick<FormState, "chosen"> =>
  ticked === undefined ? {} : { chosen: ticked }

/** After a decline: a one-time code is asked for with everything else kept; else no method stays ticked, as another way to pay is wanted. */
export const declineShown = (declined: Declined, methodId: string | null): FormState =>
  asksForCode(declined.code) && methodId !== null
    ? {
        asksOtp: true,
        chosen: methodId,
        ...(declined.code === "authentication_failed"
          ? { errors: [{ field: "otp", message: declineInWords(declined) }] }
          : {}),
      }
    : { refusal: declineInWords(declined) }
