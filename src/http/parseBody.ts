/** Parses request bodies as strict JSON (decision A3). */
import { Effect } from "effect"
import { type Problem, problem } from "../base/problem.ts"

const MAX_LEVELS = 32
/** Values in a body, on all levels: it bounds the number of faults and the time to find them. */
const MAX_VALUES = 10_000

const TOO_MANY = `has more than ${MAX_VALUES.toLocaleString("en")} values`

const refuse = (why: string): Problem => problem("json_invalid", `The body ${why}.`)

const ILL_FORMED = "contains a lone surrogate or a NUL character"

const isWellFormed = (text: string): boolean => text.isWellFormed() && !text.includes("\0")

/** The values and keys of a body that were checked so far, on all levels. */
interface Seen {
  values: number
  keys: number
}

/** Returns the fault of a parsed value, or undefined. */
const fault = (value: unknown, level: number, seen: Seen): string | undefined => {
  if (++seen.values > MAX_VALUES) return TOO_MANY
  if (typeof value === "string") return isWellFormed(value) ? undefined : ILL_FORMED
  if (typeof value !== "object" || value === null) return undefined
  if (level > MAX_LEVELS) return `nests deeper than ${MAX_LEVELS} levels`
  const isObject = !Array.isArray(value)
  for (const [key, inner] of Object.entries(value)) {
    if (isObject) seen.keys++
    if (key === "__proto__") return "has a key named __proto__"
    if (!isWellFormed(key)) return ILL_FORMED
    const found = fault(inner, level + 1, seen)
    if (found !== undefined) return found
  }
  return undefined
}

/** Matches the strings of a JSON text, with the colon after a key, and the brackets of objects and arrays. */
const KEYS = /"[^"\\]*(?:\\.[^"\\]*)*"(?:\s*(:))?|[{}[\]]/g

/** A value has at most three tokens: its key, and itself or its two brackets. */
const MAX_TOKENS = 3 * MAX_VALUES

const repeated = (key: string): string =>
  `has the key ${JSON.stringify(key.slice(0, 80))} twice in one object: give it once`

/** Returns the fault of an object with a repeated key: the parsed value has only the last one. `keyCount`: the keys of the parsed value. */
const repetition = (body: string, keyCount: number): string | undefined => {
  let [tokens, written] = [0, 0]
  for (const [, colon] of body.matchAll(KEYS)) {
    // The value of the first of two equal keys is not in the parsed value, so it is not counted there.
    if (++tokens > MAX_TOKENS) return TOO_MANY
    if (colon !== undefined) written++
  }
  if (written === keyCount) return undefined
  const levels: Array<Set<string> | undefined> = []
  for (const [token, colon] of body.matchAll(KEYS)) {
    if (colon !== undefined) {
      const key: string = JSON.parse(token.slice(0, token.lastIndexOf('"') + 1))
      const level = levels.at(-1)!
      if (level.has(key)) return repeated(key)
      level.add(key)
    } else if (token === "{" || token === "[") levels.push(token === "{" ? new Set() : undefined)
    else if (token === "}" || token === "]") levels.pop()
  }
  return undefined
}

/** Matches numerals that a double may not represent exactly: 16 or more characters, or an exponent. Text may match too. */
const SUSPICIOUS = /[\d.]{16}|\d[eE][-+]?\d/
/** Matches the strings and the suspicious numerals of a JSON text. */
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?(?=[\d.]{16}|[\d.]*[eE])\d[\d.eE+-]*/g
/** A double represents any 15 digits exactly, except near the ends of its range. */
const SURELY_EXACT = /^-?[\d.]{1,15}(?:[eE][-+]?\d{1,2})?$/
const NUMERAL = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/

/** Writes a numeral's value in one form: its significant digits and the power of ten of the last one. */
const decimal = (numeral: string): string => {
  const [, sign, whole, fraction = "", power = "0"] = NUMERAL.exec(numeral)!
  const digits = `${whole}${fraction}`.replace(/^0+/, "")
  let significant = digits.length
  while (digits[significant - 1] === "0") significant--
  const last = Number(power) - fraction.length + digits.length - significant
  return significant === 0 ? "0" : `${sign}${digits.slice(0, significant)}e${last}`
}

/** Whether a numeral is the same number after it was read into a double and written again. */
const isExact = (numeral: string): boolean => {
  const double = Number(numeral)
  return Number.isFinite(double) && decimal(String(double)) === decimal(numeral)
}

/** JSON that is parsed as Infinity. */
const INFINITE = "1e999"

/** Parses the value again with Infinity for every number that a double does not represent exactly: no parameter accepts it (decision C7). */
const markInexact = (value: unknown, body: string): unknown => {
  if (!SUSPICIOUS.test(body)) return value
  const marked = body.replace(TOKENS, (token) =>
    token.startsWith('"') || SURELY_EXACT.test(token) || isExact(token) ? token : INFINITE,
  )
  return marked === body ? value : JSON.parse(marked)
}

/** Parses the object in a body; an empty body is `{}`. A number that would not come back as it was sent is Infinity. */
export const parseBody = (body: string): Effect.Effect<Readonly<Record<string, unknown>>, Problem> =>
  Effect.suspend(() => {
    if (body === "") return Effect.succeed({})
    let value: unknown
    try {
      value = JSON.parse(body)
    } catch {
      return Effect.fail(
        refuse(body.startsWith("\uFEFF") ? "begins with a byte order mark: leave it out" : "is not valid JSON"),
      )
    }
    if (typeof value !== "object" || value === null || Array.isArray(value))
      return Effect.fail(refuse("must be a JSON object"))
    const seen: Seen = { values: 0, keys: 0 }
    const found = fault(value, 1, seen) ?? repetition(body, seen.keys)
    return found === undefined
      ? Effect.succeed(markInexact(value, body) as Readonly<Record<string, unknown>>)
      : Effect.fail(refuse(found))
  })
