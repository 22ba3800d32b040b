/** JSON values. */

export type Json = Readonly<Record<string, unknown>>

/** Returns the same text for equal JSON values: sorted keys, undefined fields left out. */
export const canonical = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null"
  const entries = Object.entries(value)
    .filter(([, inner]) => inner !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([key, inner]) => `${JSON.stringify(key)}:${canonical(inner)}`).join()}}`
}

/** How many zeros a number gains if it is written without its exponent. */
const zerosOf = (value: number): number => Math.abs(Number(/e([+-]\d+)$/.exec(String(value))?.[1] ?? 0))

/**
 * The size of a value as JSON in UTF-8, in bytes, with numbers written without exponents. Postgres writes jsonb that way: 1e308 comes
 * back in 309 digits.
 */
export const jsonBytes = (value: unknown): number => {
  let zeros = 0
  const text = JSON.stringify(value, (_, inner: unknown) => {
    if (typeof inner === "number") zeros += zerosOf(inner)
    return inner
  })
  return Buffer.byteLength(text) + zeros
}

/**
 * Parses a JSON text; returns undefined if it is not valid. Integers that a double cannot represent (Paystack's IDs have 64 bits) are
 * returned as strings.
 */
export const parseExactly = (text: string): unknown => {
  try {
    return JSON.parse(text, (_, value: unknown, context?: { readonly source?: string }) =>
      typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER ? context?.source : value,
    )
  } catch {
    return undefined
  }
}
