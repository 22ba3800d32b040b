/** Reads the settings of the service's own invoices: who sends them, and how to pay them. */
import { Effect } from "effect"
import type { ConfigProblem, Seller } from "./Config.ts"
import { EMAIL, textLike } from "./settings.ts"

const DEFAULT_NAME = "Recurring Billing"
/** A few lines of an invoice. */
const MAX_LENGTH = 200
/** The tax office's forms: 12345678-0001, or 10 or 13 digits. */
const TIN = /^(\d{8}-\d{4}|\d{10}|\d{13})$/

const printed = (name: string) =>
  textLike(
    name,
    (value) => value.length <= MAX_LENGTH && !/\p{Cc}/u.test(value),
    () => `${name} must be one line of at most ${MAX_LENGTH} characters.`,
  )

/** `mailFrom`: the sender address of the service's mail, which receives questions unless another is set. */
export const readSeller = Effect.fnUntraced(function* (
  mailFrom: string | undefined,
): Effect.fn.Return<Seller, ConfigProblem> {
  return {
    name: (yield* printed("SELLER_NAME")) ?? DEFAULT_NAME,
    address: yield* printed("SELLER_ADDRESS"),
    tin: yield* textLike(
      "SELLER_TIN",
      (value) => TIN.test(value),
      (value) => `SELLER_TIN must be a tax identification number such as 12345678-0001, not "${value}".`,
    ),
    email:
      (yield* textLike(
        "SELLER_EMAIL",
        (value) => EMAIL.test(value),
        () => "SELLER_EMAIL must be an e-mail address.",
      )) ?? mailFrom,
    bank: yield* printed("SELLER_BANK"),
  }
})
