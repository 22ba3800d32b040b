/** Converts between naira with up to two decimals, as Flutterwave counts, and our kobo. */

const NAIRA = /^(\d{1,14})(?:\.(\d{1,2}))?$/

export const toNaira = (kobo: number): number => kobo / 100

/** Converts exactly. Undefined: not an amount, negative, with parts of a kobo, or too large to count. */
export const toKobo = (naira: unknown): number | undefined => {
  if (typeof naira !== "number" && typeof naira !== "string") return undefined
  const [, whole, decimals = ""] = NAIRA.exec(String(naira)) ?? []
  if (whole === undefined) return undefined
  const kobo = Number(whole) * 100 + Number(decimals.padEnd(2, "0"))
  return Number.isSafeInteger(kobo) ? kobo : undefined
}
