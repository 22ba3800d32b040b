/**
 * Fields of rails' answers. What decides (amounts, references, statuses) must be right, or the answer cannot be read; what
 * only describes is null where it cannot be read.
 */
import { Redacted, Schema, SchemaGetter } from "effect"
import { isLoopback } from "../../config/settings.ts"
import type { RailPage, SavedMethod } from "./Rail.ts"

/** What is kept of a rail's words; until secrets are taken out of them, more is, so that none is cut in two. */
export const MAX_MESSAGE = 500
const MAX_RAW_MESSAGE = 2_000
const MAX_REFERENCE_BYTES = 200
const MAX_ADDRESS_BYTES = 2_000
const MAX_TOKEN_BYTES = 500
/** RFC 5321. */
const MAX_EMAIL_BYTES = 254
const MAX_ID = 100

/** A text in one line of at most `max` characters; null where there is none. */
export const lineOf = (value: unknown, max: number): string | null => {
  if (typeof value !== "string") return null
  const line = value
    .slice(0, MAX_RAW_MESSAGE)
    .toWellFormed()
    .replaceAll(/[\s\u0000-\u001f\u007f]+/g, " ")
    .trim()
  const cut = Array.from(line).slice(0, max).join("").trim()
  return cut === "" ? null : cut
}

/** A field that any value can be read as. */
const total = <To extends Schema.Constraint>(to: To, read: (value: unknown) => To["Encoded"]) =>
  Schema.optionalKey(
    Schema.Unknown.pipe(
      Schema.decodeTo(to, { decode: SchemaGetter.transform(read), encode: SchemaGetter.forbiddenEncoding }),
    ),
  )

/** The rail's own words. */
export const Words = total(Schema.NullOr(Schema.String), (value) => lineOf(value, MAX_RAW_MESSAGE))

/** A number by which the rail knows something: a number, or digits where a double does not hold it. */
export const RailId = total(Schema.NullOr(Schema.String), (value) =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? String(value) : lineOf(value, MAX_ID),
)

/** A currency's code. */
export const Currency = Schema.optionalKey(Schema.NullOr(Schema.String.check(Schema.isPattern(/^[A-Za-z]{3}$/))))

/** A part of an answer that is read on its own, so that what is wrong in it spoils nothing else. */
export const Part = Schema.optionalKey(Schema.Unknown)

/** A reference as far as it can be one of ours; undefined otherwise. */
export const referenceIn = (value: unknown): string | undefined =>
  typeof value === "string" && /^[\x21-\x7e]+$/.test(value) && value.length <= MAX_REFERENCE_BYTES ? value : undefined

export const Reference = Schema.String.check(Schema.makeFilter((value: string) => referenceIn(value) !== undefined))

/** What is decoded by `schema`, or undefined. */
export const readerOf = <S extends Schema.ConstraintDecoder<unknown>>(schema: S) => {
  const decode = Schema.decodeUnknownOption(schema)
  return (value: unknown): S["Type"] | undefined => {
    const found = decode(value)
    return found._tag === "Some" ? found.value : undefined
  }
}

/** A number, or its digits, from `min` to `max`; null otherwise. */
export const wholeNumber = (value: unknown, min: number, max: number): number | null => {
  const number = typeof value === "string" && /^\s*\d{1,4}\s*$/.test(value) ? Number(value) : value
  return typeof number === "number" && Number.isInteger(number) && number >= min && number <= max ? number : null
}

/** A token and the e-mail that it was saved with, as far as the rail says it; undefined where the token could not be used. */
export const tokenIn = (token: unknown, email: unknown): Pick<SavedMethod, "token" | "email"> | undefined => {
  const isUsable = (value: unknown, max: number): value is string =>
    typeof value === "string" && /^[^\s\u0000-\u001f\u007f]+$/.test(value) && Buffer.byteLength(value) <= max
  if (!isUsable(token, MAX_TOKEN_BYTES)) return undefined
  return { token: Redacted.make(token), email: isUsable(email, MAX_EMAIL_BYTES) ? email : null }
}

/** A rail's page to which a buyer may be sent; undefined where the address is none, or not safe. */
export const pageAt = (value: unknown): RailPage | undefined => {
  if (typeof value !== "string" || !URL.canParse(value)) return undefined
  const { protocol, hostname, username, password, href } = new URL(value)
  const isSafe = protocol === "https:" || (protocol === "http:" && isLoopback(hostname))
  return isSafe && username === "" && password === "" && Buffer.byteLength(href) <= MAX_ADDRESS_BYTES
    ? { kind: "page", url: href }
    : undefined
}

const INSTANT = /^(\d{4}-\d{2}-\d{2})[T ](\d{1,2})(:\d{2}(?::\d{2}(?:\.\d{1,6})?)?) ?(Z|[+-]\d{2}:?\d{2})?$/

/** An instant in ISO 8601, or with a space and without a zone; without one it is UTC, an hour after the same time in Lagos. */
export const instantIn = (value: unknown): number | null => {
  const [, day, hour, rest, zone = "Z"] = INSTANT.exec(typeof value === "string" ? value.trim() : "") ?? []
  if (day === undefined || hour === undefined) return null
  const ms = Date.parse(`${day}T${hour.padStart(2, "0")}${rest}${zone}`)
  return Number.isNaN(ms) ? null : ms
}

/** How many pages a list has; null where that is not said. */
export const pageCount = (value: unknown): number | null =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null
