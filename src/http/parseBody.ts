/** Request bodies as JSON, strictly (decision A3). */
import { Effect } from "effect"
import { type Problem, problem } from "../problem.ts"

const MAX_LEVELS = 32
/** Values in a body, of all levels: what may be faulty is bounded, and so is the time that finding it takes. */
const MAX_VALUES = 10_000

const refuse = (why: string): Problem => problem("json_invalid", `The body ${why}.`)

const isWellFormed = (text: string): boolean => text.isWellFormed() && !text.includes("\0")

/** What is wrong with a parsed value, or undefined. `seen` counts the values of the body so far. */
const fault = (value: unknown, level: number, seen: { values: number }): string | undefined => {
  if (++seen.values > MAX_VALUES) return `holds more than ${MAX_VALUES.toLocaleString("en")} values`
  if (typeof value === "string") return isWellFormed(value) ? undefined : "holds a lone surrogate or a NUL character"
  if (typeof value !== "object" || value === null) return undefined
  if (level > MAX_LEVELS) return `nests deeper than ${MAX_LEVELS} levels`
  for (const [key, inner] of Object.entries(value)) {
    if (key === "__proto__") return "has a key named __proto__"
    if (!isWellFormed(key)) return "holds a lone surrogate or a NUL character"
    const found = fault(inner, level + 1, seen)
    if (found !== undefined) return found
  }
  return undefined
}

/** The object that a body holds; an empty body is `{}`. */
export const parseBody = (body: string): Effect.Effect<Readonly<Record<string, unknown>>, Problem> =>
  Effect.suspend(() => {
    if (body === "") return Effect.succeed({})
    let value: unknown
    try {
      value = JSON.parse(body)
    } catch {
      return Effect.fail(refuse("is not valid JSON"))
    }
    if (typeof value !== "object" || value === null || Array.isArray(value))
      return Effect.fail(refuse("must be a JSON object"))
    const found = fault(value, 1, { values: 0 })
    return found === undefined ? Effect.succeed(value as Readonly<Record<string, unknown>>) : Effect.fail(refuse(found))
  })
