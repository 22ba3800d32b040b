/** JSON values. */

export type Json = Readonly<Record<string, unknown>>

/** One text for equal JSON values: keys in order, fields that are undefined left out. */
export const canonical = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null"
  const entries = Object.entries(value)
    .filter(([, inner]) => inner !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([key, inner]) => `${JSON.stringify(key)}:${canonical(inner)}`).join()}}`
}

/** The zeros that a number takes where it is written without its exponent, none where it has none. */
const zerosOf = (value: number): number => Math.abs(Number(/e([+-]\d+)$/.exec(String(value))?.[1] ?? 0))

/**
 * The bytes of a value as JSON in UTF-8, numbers written without exponents: so Postgres writes what it keeps as jsonb, and
 * 1e308 comes back from there in 309 digits.
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
 * The value of a JSON text; undefined where it is none. Whole numbers that a double does not hold (Paystack's IDs have 64
 * bits) come as strings of what is written.
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
