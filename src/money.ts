/** Money: integer kobo, NGN only (decisions B4, B5). */

export { MAX_AMOUNT_KOBO } from "../machines/billing.ts"

export const CURRENCY = "NGN"

/** What a rail takes to save a payment method where nothing is due (decision P8). */
export const VERIFICATION_KOBO = 5_000

const naira = new Intl.NumberFormat("en-NG", { style: "currency", currency: CURRENCY })

/** Kobo as people read it, such as ₦1,234.50. */
export const formatKobo = (kobo: number): string => naira.format(kobo / 100)
