/** The texts of nudges, in plain English. Pure. The payment link follows every text. */
import type { NudgeTemplate } from "../../../machines/nudge.ts"
import { formatKobo } from "../../base/money.ts"
import { day } from "../../pages/words.ts"

/** The facts that a text can use; null if unknown. */
export interface Subject {
  readonly name: string
  readonly business: string
  readonly plan: string | null
  /** The amount due now, else the next charge. */
  readonly amountKobo: number | null
  /** When it is charged, or due. */
  readonly dueAt: number | null
  /** The state of an instalment for goods; null if the nudge is not about one. */
  readonly instalment: "due" | "missed" | null
  readonly message: string | null
}

interface Wording {
  readonly text: string
  readonly subject: string
}

/**
 * The wordings by name. If a fact is missing, the next wording of the template is used: with all facts, without a date,
 * without a subscription. Messengers with approved templates use the same names.
 */
export const WORDINGS = {
  payment_due: {
    subject: "Your payment to {business} is due on {date}",
    text: "Hello {name}, {amount} for {plan} is due to {business} on {date}. To pay or change how you pay:",
  },
  payment_due_undated: {
    subject: "Your payment to {business} is due",
    text: "Hello {name}, {amount} for {plan} is due to {business}. To pay or change how you pay:",
  },
  payment_due_general: {
    subject: "Your payment to {business} is due",
    text: "Hello {name}, a payment to {business} is due. To pay:",
  },
  payment_failed: {
    subject: "Your payment to {business} did not go through",
    text: "Hello {name}, your payment of {amount} to {business} for {plan} did not go through. To pay now:",
  },
  payment_failed_general: {
    subject: "Your payment to {business} did not go through",
    text: "Hello {name}, your payment to {business} did not go through. To pay now:",
  },
  update_payment_method: {
    subject: "{business} needs another way to be paid",
    text: "Hello {name}, {business} could not use your payment method for {plan}. To add another one:",
  },
  update_payment_method_general: {
    subject: "{business} needs another way to be paid",
    text: "Hello {name}, {business} could not use your payment method. To add another one:",
  },
  service_paused: {
    subject: "{plan} at {business} is paused",
    text: "Hello {name}, {plan} at {business} is paused because {amount} is unpaid. To pay and go on:",
  },
  service_paused_general: {
    subject: "Your service at {business} is paused",
    text: "Hello {name}, your service at {business} is paused because a payment is missing. To pay and go on:",
  },
  instalment_due: {
    subject: "Your instalment for {plan} is due on {date}",
    text: "Hello {name}, {amount} for {plan} is due to {business} on {date}. To pay, and to see how far you are:",
  },
  instalment_missed: {
    subject: "An instalment for {plan} is late",
    text: "Hello {name}, {amount} for {plan} has been due to {business} since {date}. To pay and catch up:",
  },
  custom: { subject: "A message from {business}", text: "{message}" },
} as const satisfies Readonly<Record<string, Wording>>

export type WordingName = keyof typeof WORDINGS

const BY_TEMPLATE: Readonly<Record<NudgeTemplate, ReadonlyArray<WordingName>>> = {
  payment_due: ["payment_due", "payment_due_undated", "payment_due_general"],
  payment_failed: ["payment_failed", "payment_failed_general"],
  update_payment_method: ["update_payment_method", "update_payment_method_general"],
  service_paused: ["service_paused", "service_paused_general"],
  custom: ["custom"],
}

const valuesOf = ({
  amountKobo,
  dueAt,
  instalment: _,
  ...words
}: Subject): Readonly<Record<string, string | null>> => ({
  ...words,
  amount: amountKobo === null ? null : formatKobo(amountKobo),
  date: dueAt === null ? null : day(dueAt),
})

const VARIABLE = /\{(\w+)\}/g

/** Returns the names of a text's variables, in order. Messengers' templates number them 1, 2, 3…, the link last. */
const variablesOf = (text: string): ReadonlyArray<string> => [...text.matchAll(VARIABLE)].map(([, name]) => name!)

/** A nudge's filled text, stored until it is sent. */
export interface Worded {
  readonly wording: WordingName
  readonly subject: string
  readonly text: string
  readonly values: ReadonlyArray<string>
}

export const wordsFor = (template: NudgeTemplate, about: Subject): Worded => {
  const values = valuesOf(about)
  const fill = (text: string) => text.replace(VARIABLE, (_, name: string) => values[name]!)
  const fits = ({ text, subject }: Wording) => variablesOf(text + subject).every((name) => values[name] !== null)
  // The last wording of each template needs only facts that every nudge has.
  const names = about.instalment === null ? BY_TEMPLATE[template] : ([`instalment_${about.instalment}`] as const)
  const wording = names.find((name) => fits(WORDINGS[name])) ?? names.at(-1)!
  const { subject, text } = WORDINGS[wording]
  return { wording, subject: fill(subject), text: fill(text), values: variablesOf(text).map((name) => values[name]!) }
}
