/** Money: integer kobo, NGN only (spec 2.1, decisions B4, B5). */

/** ₦999,999,999.99: the largest amount anywhere, also of a product (decision B4). */
export const MAX_AMOUNT_KOBO = 99_999_999_999

export const CURRENCY = "NGN"

const naira = new Intl.NumberFormat("en-NG", { style: "currency", currency: CURRENCY })

/** Kobo as people read it, such as ₦1,234.50. */
export const formatKobo = (kobo: number): string => naira.format(kobo / 100)
