/** Request bodies as JSON, strictly (decision A3). */
import { Effect } from "effect"
import { type Problem, problem } from "../base/problem.ts"

const MAX_LEVELS = 32
/** Values in a body, of all levels: what may be faulty is bounded, and so is the time that finding it takes. */
const MAX_VALUES = 10_000

const TOO_MANY = `holds more than ${MAX_VALUES.toLocaleString("en")} values`

const refuse = (why: string): Problem => problem("json_invalid", `The body ${why}.`)

const isWellFormed = (text: string): boolean => text.isWellFormed() && !text.includes("\0")

/** What a body has of each, of all levels, as far as it was looked at. */
interface Seen {
  values: number
  keys: number
}

/** What is wrong with a parsed value, or undefined. */
const fault = (value: unknown, level: number, seen: Seen): string | undefined => {
  if (++seen.values > MAX_VALUES) return TOO_MANY
  if (typeof value === "string") return isWellFormed(value) ? undefined : "holds a lone surrogate or a NUL character"
  if (typeof value !== "object" || value === null) return undefined
  if (level > MAX_LEVELS) return `nests deeper than ${MAX_LEVELS} levels`
  const isObject = !Array.isArray(value)
  for (const [key, inner] of Object.entries(value)) {
    if (isObject) seen.keys++
    if (key === "__proto__") return "has a key named __proto__"
    if (!isWellFormed(key)) return "holds a lone surrogate or a NUL character"
    const found = fault(inner, level + 1, seen)
    if (found !== undefined) return found
  }
  return undefined
}

/** The strings of a JSON text, each with the colon behind it where it is a key, and where objects and arrays begin and end. */
const KEYS = /"[^"\\]*(?:\\.[^"\\]*)*"(?:\s*(:))?|[{}[\]]/g

/** Of a value: its key, and itself or its two brackets. */
const MAX_TOKENS = 3 * MAX_VALUES

const repeated = (key: string): string =>
  `has the key ${JSON.stringify(key.slice(0, 80))} twice in one object: give it once`

/** What is wrong where an object of the text has a key twice, of which the value has only the last; `held`: how many keys the value has. */
const repetition = (body: string, held: number): string | undefined => {
  let [tokens, written] = [0, 0]
  for (const [, colon] of body.matchAll(KEYS)) {
    // What stands behind the first of two keys is not in the value, and not bounded by that.
    if (++tokens > MAX_TOKENS) return TOO_MANY
    if (colon !== undefined) written++
  }
  if (written === held) return undefined
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

/** Numerals that a double may not hold: of 16 characters and more, or with an exponent. Text may look so too. */
const SUSPICIOUS = /[\d.]{16}|\d[eE][-+]?\d/
/** The strings and the suspicious numerals of a JSON text. */
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?(?=[\d.]{16}|[\d.]*[eE])\d[\d.eE+-]*/g
/** A double holds any 15 digits, other than near the ends of its range. */
const SURELY_HELD = /^-?[\d.]{1,15}(?:[eE][-+]?\d{1,2})?$/
const NUMERAL = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/

/** A numeral's value as a decimal, written in one way: its significant digits and the power of ten of the last one. */
const decimal = (numeral: string): string => {
  const [, sign, whole, fraction = "", power = "0"] = NUMERAL.exec(numeral)!
  const digits = `${whole}${fraction}`.replace(/^0+/, "")
  let significant = digits.length
  while (digits[significant - 1] === "0") significant--
  const last = Number(power) - fraction.length + digits.length - significant
  return significant === 0 ? "0" : `${sign}${digits.slice(0, significant)}e${last}`
}

/** Whether a numeral still says the same number when it was read into a double and written again. */
const isHeld = (numeral: string): boolean => {
  const held = Number(numeral)
  return Number.isFinite(held) && decimal(String(held)) === decimal(numeral)
}

/** JSON for a number that no double holds: read as Infinity. */
const UNHELD = "1e999"

/** The value again, with Infinity for every number that no double holds: no parameter takes that (decision C7). */
const withoutUnheld = (value: unknown, body: string): unknown => {
  if (!SUSPICIOUS.test(body)) return value
  const marked = body.replace(TOKENS, (token) =>
    token.startsWith('"') || SURELY_HELD.test(token) || isHeld(token) ? token : UNHELD,
  )
  return marked === body ? value : JSON.parse(marked)
}

/** The object that a body holds; an empty body is `{}`. A number that would not come back as it was sent is Infinity. */
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
      ? Effect.succeed(withoutUnheld(value, body) as Readonly<Record<string, unknown>>)
      : Effect.fail(refuse(found))
  })
