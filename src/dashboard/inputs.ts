/** Turns what people type into the parameters of the API. The API checks them; only what has another form on the page is read here. */
import type { Json } from "../base/json.ts"
import { formatInstant, LAGOS_OFFSET_MS } from "../base/time.ts"
import type { Field, Wrong } from "../pages/dashboard/fields.ts"
import type { Form } from "./forms.ts"

/** A field with its place in the body. */
export interface Input extends Field {
  /**
   * What an empty field means: the parameter is left out (by default), or it is null, or it is an empty text, list or object. Checkboxes without a choice are an
   * empty list unless this says `omit`.
   */
  readonly whenEmpty?: "omit" | "null" | "empty"
  /**
   * What the typed text stands for, where `kind` does not say it: a list of numbers such as `1, 3, 7`; a list of words, one in each line; a flag,
   * `true` or `false`; an object as JSON.
   */
  readonly as?: "numbers" | "words" | "flag" | "object"
  /** For `lines` that change an object: the pairs that it has. A pair whose line is gone is removed. */
  readonly before?: Readonly<Record<string, string>>
}

/** An amount as people type it, such as `2,500.00` or `₦2500`, in kobo; undefined: it is none. */
export const koboOf = (typed: string): number | undefined => {
  const match = /^₦?\s*(\d{1,3}(?:,?\d{3})*)(?:\.(\d{1,2}))?$/.exec(typed.trim())
  if (match === null) return undefined
  const kobo = Number(match[1]!.replaceAll(",", "")) * 100 + Number((match[2] ?? "").padEnd(2, "0"))
  return Number.isSafeInteger(kobo) ? kobo : undefined
}

/** Kobo as a field shows them. */
export const nairaTyped = (kobo: number): string => (kobo / 100).toFixed(2)

/** A day and time in Lagos, as browsers send it, as an instant of the API; undefined: it is none. */
export const instantOf = (typed: string): string | undefined => {
  const at = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2})?$/.test(typed) ? Date.parse(`${typed}Z`) : Number.NaN
  return Number.isNaN(at) ? undefined : formatInstant(at - LAGOS_OFFSET_MS)
}

/** An instant as a field shows it, in Lagos. */
export const instantTyped = (at: number): string => new Date(at + LAGOS_OFFSET_MS).toISOString().slice(0, 16)

/** Metadata as people type it: `key=value`, one in a line; undefined: a line has no `=`. */
const pairsOf = (typed: string): Readonly<Record<string, string>> | undefined => {
  const lines = typed.split(/\r?\n/).filter((line) => line.trim() !== "")
  if (lines.some((line) => !line.includes("="))) return undefined
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1).trim()]),
  )
}

/** Metadata as a field shows it. */
export const pairsTyped = (pairs: Readonly<Record<string, string>>): string =>
  Object.entries(pairs)
    .map(([key, value]) => `${key}=${value}`)
    .join("\n")

const numberOf = (typed: string): number | string => (/^-?\d+(\.\d+)?$/.test(typed) ? Number(typed) : typed)

/** A value, or why it cannot be read. */
type Read = { readonly value: unknown } | { readonly wrong: string }

const orWrong = (value: unknown, wrong: string): Read => (value === undefined ? { wrong } : { value })

/** An object as JSON; undefined: it is none. */
const objectOf = (typed: string): object | undefined => {
  try {
    const value: unknown = JSON.parse(typed)
    return value instanceof Object && !Array.isArray(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Pairs that change the ones before: an empty value removes one that is gone. */
const pairsAfter = (typed: string, before: Readonly<Record<string, string>>) => {
  const pairs = pairsOf(typed)
  return pairs && { ...Object.fromEntries(Object.keys(before).map((key) => [key, ""])), ...pairs }
}

/** The words of a list, with commas or white space between them. */
const wordsOf = (typed: string): ReadonlyArray<string> => typed.split(/[,\s]+/).filter(Boolean)

const readText = ({ kind, as, before = {} }: Input, typed: string): Read => {
  switch (as ?? kind) {
    case "flag":
      return { value: typed === "true" }
    case "words":
      return { value: wordsOf(typed) }
    case "numbers":
      return { value: wordsOf(typed).map(numberOf) }
    case "object":
      return orWrong(objectOf(typed), 'Type an object as JSON, such as {"seats": 5}.')
    case "naira":
      return orWrong(koboOf(typed), "Type an amount in naira, such as 2,500.00.")
    case "instant":
      return orWrong(instantOf(typed), "Type a day and a time, such as 2027-03-01 09:00.")
    case "lines":
      return orWrong(pairsAfter(typed, before), "Type one key=value in each line.")
    case "number":
      return { value: numberOf(typed) }
    default:
      return { value: typed }
  }
}

/** Puts a value into a body, at a name such as `retry_logic.max_attempts`. */
const put = (body: Record<string, unknown>, name: string, value: unknown): void => {
  const [first, ...rest] = name.split(".")
  if (rest.length === 0) body[first!] = value
  else {
    const inner = (body[first!] ?? {}) as Record<string, unknown>
    body[first!] = inner
    put(inner, rest.join("."), value)
  }
}

/** The value of an empty field that is not null. */
const emptyOf = ({ kind, as }: Input): unknown => (as === "numbers" || as === "words" ? [] : kind === "lines" ? {} : "")

/** Reads the fields of a form as the body of a request. */
export const readInputs = (
  inputs: ReadonlyArray<Input>,
  form: Form,
): { readonly body: Json; readonly wrong: Wrong } => {
  const body: Record<string, unknown> = {}
  const wrong = new Map<string, string>()
  for (const input of inputs) {
    const { name, kind, whenEmpty = "omit" } = input
    if (kind === "checkbox") put(body, name, form.get(name) === "true")
    else if (kind === "checkboxes") {
      const chosen = form.all(name)
      if (chosen.length > 0 || input.whenEmpty !== "omit") put(body, name, chosen)
    } else {
      const typed = form.get(name)
      if (typed !== "" || input.before !== undefined) {
        const read = readText(input, typed)
        if ("wrong" in read) wrong.set(name, read.wrong)
        else put(body, name, read.value)
      } else if (whenEmpty !== "omit") put(body, name, whenEmpty === "null" ? null : emptyOf(input))
    }
  }
  return { body, wrong }
}
