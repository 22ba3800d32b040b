/**
 * Schemas of the fields of rails' answers. If a field that decides (amount, reference, status) is invalid, the answer is
 * unreadable. A field that only describes is null if it is invalid.
 */
import { Redacted, Schema, SchemaGetter } from "effect"
import { isLoopback } from "../../config/settings.ts"
import type { RailPage, SavedMethod } from "./Rail.ts"

/** Stored characters of a rail's message. More are read until secrets are removed, so that no secret is cut in two. */
export const MAX_MESSAGE = 500
const MAX_RAW_MESSAGE = 2_000
const MAX_REFERENCE_BYTES = 200
const MAX_ADDRESS_BYTES = 2_000
const MAX_TOKEN_BYTES = 500
/** RFC 5321. */
const MAX_EMAIL_BYTES = 254
const MAX_ID = 100

/** Returns a text as one line of at most `max` characters; null if it is empty or no text. */
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

/** Makes a field that accepts every value. */
const lenient = <To extends Schema.Constraint>(to: To, read: (value: unknown) => To["Encoded"]) =>
  Schema.optionalKey(
    Schema.Unknown.pipe(
      Schema.decodeTo(to, { decode: SchemaGetter.transform(read), encode: SchemaGetter.forbiddenEncoding }),
    ),
  )

/** The rail's own message. */
export const Words = lenient(Schema.NullOr(Schema.String), (value) => lineOf(value, MAX_RAW_MESSAGE))

/** The rail's own number of an object: a number, or its digits if a double cannot represent it. */
export const RailId = lenient(Schema.NullOr(Schema.String), (value) =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? String(value) : lineOf(value, MAX_ID),
)

/** A currency's code. */
export const Currency = Schema.optionalKey(Schema.NullOr(Schema.String.check(Schema.isPattern(/^[A-Za-z]{3}$/))))

/** A part of an answer that is decoded separately, so that an error in it does not make the rest unreadable. */
export const Part = Schema.optionalKey(Schema.Unknown)

/** Returns a reference if it can be one of ours; undefined otherwise. */
export const referenceIn = (value: unknown): string | undefined =>
  typeof value === "string" && /^[\x21-\x7e]+$/.test(value) && value.length <= MAX_REFERENCE_BYTES ? value : undefined

export const Reference = Schema.String.check(Schema.makeFilter((value: string) => referenceIn(value) !== undefined))

/** Returns a function that decodes a value by `schema`; undefined if it does not match. */
export const readerOf = <S extends Schema.ConstraintDecoder<unknown>>(schema: S) => {
  const decode = Schema.decodeUnknownOption(schema)
  return (value: unknown): S["Type"] | undefined => {
    const found = decode(value)
    return found._tag === "Some" ? found.value : undefined
  }
}

/** Reads a whole number, or its digits, from `min` to `max`; null otherwise. */
export const wholeNumber = (value: unknown, min: number, max: number): number | null => {
  const number = typeof value === "string" && /^\s*\d{1,4}\s*$/.test(value) ? Number(value) : value
  return typeof number === "number" && Number.isInteger(number) && number >= min && number <= max ? number : null
}

/** Reads a token and the e-mail that it was saved with (null if unusable); undefined if the token is unusable. */
export const tokenIn = (token: unknown, email: unknown): Pick<SavedMethod, "token" | "email"> | undefined => {
  const isUsable = (value: unknown, max: number): value is string =>
    typeof value === "string" && /^[^\s\u0000-\u001f\u007f]+$/.test(value) && Buffer.byteLength(value) <= max
  if (!isUsable(token, MAX_TOKEN_BYTES)) return undefined
  return { token: Redacted.make(token), email: isUsable(email, MAX_EMAIL_BYTES) ? email : null }
}

/** Reads the address of a rail's page for the buyer; undefined if it is invalid or unsafe. */
export const pageAt = (value: unknown): RailPage | undefined => {
  if (typeof value !== "string" || !URL.canParse(value)) return undefined
  const { protocol, hostname, username, password, href } = new URL(value)
  const isSafe = protocol === "https:" || (protocol === "http:" && isLoopback(hostname))
  return isSafe && username === "" && password === "" && Buffer.byteLength(href) <= MAX_ADDRESS_BYTES
    ? { kind: "page", url: href }
    : undefined
}

const INSTANT = /^(\d{4}-\d{2}-\d{2})[T ](\d{1,2})(:\d{2}(?::\d{2}(?:\.\d{1,6})?)?) ?(Z|[+-]\d{2}:?\d{2})?$/

/** Reads an instant in ISO 8601 (a T or a space) as ms since the epoch; null: invalid. No zone means UTC, an hour after the same time in Lagos. */
export const instantIn = (value: unknown): number | null => {
  const [, day, hour, rest, zone = "Z"] = INSTANT.exec(typeof value === "string" ? value.trim() : "") ?? []
  if (day === undefined || hour === undefined) return null
  const ms = Date.parse(`${day}T${hour.padStart(2, "0")}${rest}${zone}`)
  return Number.isNaN(ms) ? null : ms
}

/** Reads the number of pages of a list; null if the rail does not give it. */
export const pageCount = (value: unknown): number | null =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null
