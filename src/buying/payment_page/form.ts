/** Builds the form of a payment page, also after a submission that failed. */
import type { PaymentForm } from "../../pages/views.ts"
import { asksForCode, type Declined, declineInWords } from "./declines.ts"
import { newSubmissionNumber } from "./fields.ts"
import type { Fault, Fields, TypedFields } from "./submission.ts"

/** What a form shows besides its usual content. */
export interface FormState {
  readonly errors?: PaymentForm["errors"]
  readonly refusal?: string | null
  readonly asksOtp?: boolean
  /** The ID of the selected payment method. */
  readonly chosen?: string
  /** The fields as they were typed. */
  readonly typed?: TypedFields
}

type FormContent = Pick<PaymentForm, "amountKobo" | "purpose" | "details" | "saved" | "takesCards"> & {
  readonly chooses?: PaymentForm["chooses"]
  /** Whether to ask an existing customer for an e-mail address, which the rail needs. */
  readonly asksEmail: boolean
}

/** Returns the selected method if the page offers it. With a one-time code, any method may be selected. */
const chosenOf = (saved: PaymentForm["saved"], { chosen, asksOtp = false }: FormState): string | null =>
  chosen !== undefined && (asksOtp || saved.some(({ id }) => id === chosen)) ? chosen : null

/** Builds the form of the page at `path`. */
export const formOf = (
  path: string,
  { asksEmail, chooses = null, ...content }: FormContent,
  state: FormState,
): PaymentForm => ({
  ...content,
  chooses: chooses === null ? null : { ...chooses, value: state.typed?.amount ?? chooses.value },
  email: asksEmail ? (state.typed?.email ?? "") : null,
  action: `${path}/complete`,
  submission: newSubmissionNumber(),
  details: content.details === null ? null : (state.typed ?? content.details),
  chosen: chosenOf(content.saved, state),
  asksOtp: state.asksOtp ?? false,
  errors: state.errors ?? [],
  refusal: state.refusal ?? null,
})

/** Shows each fault at its field. */
export const faultsShown = (faults: ReadonlyArray<Fault>): Pick<FormState, "errors"> => ({
  errors: faults.map(({ field, problem: { message } }) => ({ field, message })),
})

/** Keeps the payment method that the buyer had selected. A typed card does not become the selected method. */
export const tickedOf = ({ payment_method: ticked }: Fields): Pick<FormState, "chosen"> =>
  ticked === undefined ? {} : { chosen: ticked }

/**
 * Builds the state after a decline. If a one-time code is missing, asks for it and keeps the rest. Otherwise clears the selection: the
 * buyer needs another way to pay.
 */
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
