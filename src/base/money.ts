/** Money: integer kobo, NGN only (decisions B4, B5). */

export { MAX_AMOUNT_KOBO } from "../../machines/billing.ts"

export const CURRENCY = "NGN"

/** The amount that a rail charges to save a payment method when nothing is due (decision P8). */
export const VERIFICATION_KOBO = 5_000

const naira = new Intl.NumberFormat("en-NG", { style: "currency", currency: CURRENCY })

/** Kobo as naira with two decimals, exact: the format of files. */
export const inNaira = (kobo: number): string => {
  const digits = String(Math.abs(kobo)).padStart(3, "0")
  return `${kobo < 0 ? "-" : ""}${digits.slice(0, -2)}.${digits.slice(-2)}`
}

/** Kobo in the format that people read, such as ₦1,234.50. */
export const formatKobo = (kobo: number): string => naira.format(kobo / 100)

/** Hundredths of any currency (three-letter code) in the format that people read. */
export const formatAmount = (hundredths: number, currency: string): string =>
  new Intl.NumberFormat("en-NG", { style: "currency", currency }).format(hundredths / 100)
