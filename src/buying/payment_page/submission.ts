/**
 * Reads what a buyer submits on a page (decision G8), as a form or as JSON. Card numbers stop here: they select a test method, and no part
 * of them goes further.
 */
import { Effect, Schema } from "effect"
import { KOBO_OF_NAIRA } from "../../../machines/instalment_schedule.ts"
import type { Json } from "../../base/json.ts"
import { parsePhone } from "../../base/phone.ts"
import { type Problem, problem } from "../../base/problem.ts"
import { isVisible } from "../../base/text.ts"
import { email } from "../../http/parameters.ts"
import { FORM_FIELDS, type FormField, type TypedDetails } from "../../pages/views.ts"
import { methodOfCard } from "../../rails/rail/simulator/methods.ts"
import { hashOf } from "../../security/secret/linkTokens.ts"

const FIELDS = [...FORM_FIELDS, "submission", "seen"] as const
type Field = (typeof FIELDS)[number]

/** The fields as sent. */
export type Fields = Readonly<Partial<Record<Field, string>>>

export interface Fault {
  readonly field: FormField
  readonly problem: Problem
}

export interface Details {
  readonly name: string
  readonly email: string | null
  readonly phone: string | null
}

export interface Submission {
  /** null: the page did not ask for them. */
  readonly details: Details | null
  /** null: the buyer enters one on the rail's own page. */
  readonly methodId: string | null
  /** An e-mail address that the rail needs and the customer does not have; null: it is not asked for. */
  readonly email: string | null
  /** The one-time code. */
  readonly code: string | null
  /** Whether test methods are allowed. */
  readonly simulated: boolean
  /** The hash of the form's submission number, its idempotency key. */
  readonly number: string | null
  /** The amount that the buyer was shown, or chose (kobo). */
  readonly amountKobo: number | null
  /** The amount already paid when the form was made (kobo), on pages that take several payments. */
  readonly seenKobo: number | null
}

/** The typed fields, which a form shows again. */
export interface TypedFields extends TypedDetails {
  /** The amount that the buyer chose; null: the form had no such field. */
  readonly amount: string | null
}

const MAX_FIELD = 500
const MAX_NAME = 120
const MAX_ID = 64
/** Fields that are sent only if they are asked for: empty means missing. Other empty fields count as not sent. */
const KEPT_EMPTY: ReadonlySet<Field> = new Set(["otp", "amount"])

const wrong = (field: Field, message: string): Problem => problem("parameter_invalid", message, field)

/** Returns the fields of a form. If a field is sent several times, its last value that is not empty counts. */
export const formFields = (text: string): Fields => {
  const form = new URLSearchParams(text)
  const fields: Partial<Record<Field, string>> = {}
  for (const field of FIELDS) {
    const values = form.getAll(field)
    const value = values.findLast((one) => one.trim() !== "") ?? (KEPT_EMPTY.has(field) ? values[0] : undefined)
    // Pasted tabs and line breaks become spaces. A value that is cut is still too long for its field, which refuses it.
    if (value !== undefined) fields[field] = value.slice(0, MAX_FIELD).replaceAll(/\p{Cc}/gu, " ")
  }
  return fields as Fields
}

/** Returns the fields of a JSON body. Refuses unknown parameters and wrong types (decision A4). */
export const jsonFields = Effect.fnUntraced(function* (body: Json) {
  const fields: Partial<Record<Field, string>> = {}
  for (const [name, value] of Object.entries(body)) {
    const field = FIELDS.find((one) => one === name)
    if (field === undefined) return yield* problem("parameter_unknown", `There is no parameter ${name} here.`, name)
    if (value === null) continue
    const isValid = field === "amount" ? Number.isSafeInteger(value) : typeof value === "string"
    if (!isValid || String(value).length > MAX_FIELD || /\p{Cc}/u.test(String(value)))
      return yield* wrong(
        field,
        field === "amount"
          ? "amount must be a whole number."
          : `${field} must be a string: a line of at most ${MAX_FIELD} characters.`,
      )
    if (String(value) !== "") fields[field] = String(value)
  }
  return fields as Fields
})

const isEmail = Schema.is(email)

const readName = ({ name }: Fields): string | Problem => {
  const text = (name ?? "").trim()
  if (!isVisible(text)) return problem("parameter_missing", "Enter your name.", "name")
  if ([...text].length > MAX_NAME) return wrong("name", `Enter a name of at most ${MAX_NAME} characters.`)
  return text
}

const readEmail = ({ email }: Fields): string | null | Problem => {
  const text = (email ?? "").trim()
  if (text === "") return null
  return isEmail(text) ? text : wrong("email", "Enter an e-mail address such as ada@example.com.")
}

const readPhone = ({ phone = "" }: Fields): string | null | Problem =>
  phone.trim() === ""
    ? null
    : (parsePhone(phone) ?? wrong("phone", "Enter a phone number such as 0803 123 4567 or +234 803 123 4567."))

const EXPIRY = /^(0?[1-9]|1[0-2])\s*[/-]?\s*(\d{2}|20\d{2})$/

/** Checks that a card is valid until the end of the month that is printed on it. */
const expiryFault = (text: string, now: number): Problem | undefined => {
  const [, month, year] = EXPIRY.exec(text.trim()) ?? []
  if (month === undefined || year === undefined)
    return wrong("card_expiry", "Enter the expiry date as on the card, such as 12/34.")
  const full = year.length === 2 ? 2000 + Number(year) : Number(year)
  return Date.UTC(full, Number(month)) > now
    ? undefined
    : wrong("card_expiry", "This card has expired: use another one.")
}

const cardFaults = (fields: Fields, now: number, simulated: boolean): ReadonlyArray<Problem> => {
  const number = (fields.card_number ?? "").replaceAll(/[\s-]/g, "")
  const { card_expiry: expiry, card_cvc: cvc } = fields
  const missing = (field: Field, message: string) => problem("parameter_missing", message, field)
  return [
    number === ""
      ? missing("card_number", "Enter the card number.")
      : simulated && methodOfCard(number) !== undefined
        ? undefined
        : wrong("card_number", "Payments are simulated here: use one of the test cards, never a real one."),
    expiry === undefined ? missing("card_expiry", "Enter the expiry date.") : expiryFault(expiry, now),
    cvc === undefined
      ? missing("card_cvc", "Enter the security code.")
      : /^\d{3,4}$/.test(cvc.trim())
        ? undefined
        : wrong("card_cvc", "Enter the 3 or 4 digits of the security code."),
  ].filter((fault) => fault !== undefined)
}

/** Returns the named or typed payment method, and its faults. */
const readMethod = (
  fields: Fields,
  { now, simulated, hosted, inForm }: FormRequirements,
): { readonly methodId: string | null; readonly faults: ReadonlyArray<Problem> } => {
  const named = fields.payment_method?.trim()
  if (named !== undefined) {
    const faults =
      named.length > MAX_ID ? [wrong("payment_method", "payment_method must be the ID of a payment method.")] : []
    return { methodId: named, faults }
  }
  // Card fields are ignored: the buyer enters the card on the rail's page.
  if (hosted) return { methodId: null, faults: [] }
  const hasCard = fields.card_number !== undefined || fields.card_expiry !== undefined || fields.card_cvc !== undefined
  if (!hasCard && !inForm)
    return {
      methodId: "",
      faults: [problem("parameter_missing", "Enter a card, or choose a payment method.", "payment_method")],
    }
  const number = (fields.card_number ?? "").replaceAll(/[\s-]/g, "")
  return { methodId: methodOfCard(number) ?? "", faults: cardFaults(fields, now, simulated) }
}

const KOBO_IN = { kobo: 1, naira: KOBO_OF_NAIRA } as const

const digits = (text: string): boolean => /^\d{1,11}$/.test(text)

/** Returns the amount that was shown or chosen (kobo), or its fault. */
const readAmount = ({ amount }: Fields, unit: FormRequirements["amountsIn"]): number | null | Problem => {
  if (amount === undefined) return null
  if (amount.trim() === "")
    return unit === "kobo"
      ? null
      : problem("parameter_missing", "Enter how much you want to pay, in whole naira, such as 5000.", "amount")
  // Buyers separate thousands with commas or spaces.
  const typed = unit === "naira" ? amount.replaceAll(/[\s,₦]/g, "") : amount
  if (digits(typed)) return Number(typed) * KOBO_IN[unit]
  return unit === "naira"
    ? wrong("amount", "Enter a whole number of naira, such as 5000.")
    : wrong("amount", "amount must be what the page showed: an integer number of kobo.")
}

/** Returns the one-time code; a fault if it was asked for and left out. */
const readCode = ({ otp }: Fields): string | null | Problem => {
  if (otp === undefined) return null
  return otp.trim() === ""
    ? problem("parameter_missing", "Enter the code that your bank has sent you.", "otp")
    : otp.trim()
}

/** Returns the fields as typed, for the form to show again. */
export const typedFields = ({ name = "", email = "", phone = "", amount }: Fields): TypedFields => ({
  name,
  email,
  phone,
  amount: amount ?? null,
})

const NO_EMAIL = problem(
  "parameter_missing",
  "Enter your e-mail address: the payment company needs it for the receipt.",
  "email",
)

/** What a page asks for, and how it reads a submission. */
export interface FormRequirements {
  readonly asksDetails: boolean
  /** The customer exists without an e-mail address, which the rail needs. */
  readonly asksEmail: boolean
  /** Buyers enter payment methods on the rail's own page. */
  readonly hosted: boolean
  /** Whether test cards select test methods. */
  readonly simulated: boolean
  /** The unit of amounts. */
  readonly amountsIn: "kobo" | "naira"
  /** The answer is the form, which shows each fault at its field. A program may name a payment method instead of a card. */
  readonly inForm: boolean
  readonly now: number
}

/** Returns the submission, or its faults in the order of the form. */
export const readSubmission = (
  fields: Fields,
  asked: FormRequirements,
): Submission | { readonly faults: ReadonlyArray<Fault> } => {
  const isFault = (value: unknown): value is Problem => value instanceof Object
  const { asksDetails, asksEmail } = asked
  const { methodId, faults } = readMethod(fields, asked)
  const needsEmail = methodId === null && (asksDetails || asksEmail)
  const typed = readEmail(fields)
  const [name, mail, phone] = [readName(fields), needsEmail && typed === null ? NO_EMAIL : typed, readPhone(fields)]
  const [code, amountKobo] = [readCode(fields), readAmount(fields, asked.amountsIn)]
  const problems = [
    ...[amountKobo].filter(isFault),
    ...(asksDetails ? [name, mail, phone] : needsEmail ? [mail] : []).filter(isFault),
    ...faults,
    ...[code].filter(isFault),
  ]
  if (problems.length > 0)
    // Each problem names its field.
    return { faults: problems.map((one) => ({ field: one.param as FormField, problem: one })) }
  return {
    details: asksDetails ? ({ name, email: mail, phone } as Details) : null,
    methodId,
    email: needsEmail && !asksDetails ? (mail as string) : null,
    code: code as string | null,
    simulated: asked.simulated,
    number: fields.submission === undefined ? null : hashOf(fields.submission),
    amountKobo: amountKobo as number | null,
    // Only our own forms send it.
    seenKobo: fields.seen !== undefined && digits(fields.seen) ? Number(fields.seen) : null,
  }
}
