/**
 * The kinds of parameters that bodies and queries are made of. Descriptions say what a value must be. Where a check is one
 * that JSON Schema has no word for, the OpenAPI document leaves it out with its description: there the schema itself has
 * the description as well.
 */
import { Schema } from "effect"
import { jsonBytes } from "../base/json.ts"
import { MAX_METADATA_BYTES, MAX_METADATA_KEYS } from "../base/metadata.ts"
import { MAX_AMOUNT_KOBO } from "../base/money.ts"
import { E164, isPhone, parsePhone } from "../base/phone.ts"
import { hasControls, isVisible } from "../base/text.ts"
import { FIRST_YEAR, LAST_YEAR, parseInstant } from "../base/time.ts"
import { isWebAddress } from "../base/webAddress.ts"

const MAX_ID = 64
const MAX_METADATA_KEY = 40
const MAX_METADATA_VALUE = 500
const MAX_COUNT = 2_147_483_647
/** Of what merchants fill freely (decision C7): twice fits into an event. */
const MAX_FREE_BYTES = 16 * 1024

const NO_CONTROLS = "without control characters other than tab and line ends"

/** Refuses control characters that no text needs. JSON Schema's patterns have no portable word for it. */
const withoutControls = Schema.makeFilter((value: string) => !hasControls(value) || `a string ${NO_CONTROLS}`)

/** What people are to read: a text that shows nothing is none (decision A5). The document's pattern says it as nearly as all readers of it can. */
export const text = (max: number, min = 1) => {
  const description = `a string of ${min} to ${max} characters that are not all blank, ${NO_CONTROLS}`
  return Schema.String.annotate({ description })
    .check(
      Schema.isBetweenCodePoints(min, max),
      Schema.makeFilter(isVisible, { toJsonSchema: () => ({ pattern: "\\S" }) }),
      withoutControls,
    )
    .annotate({ description })
}

/** A text that may also be empty, or null. */
export const textOrNull = (max: number) => {
  const description = `a string of at most ${max} characters that are not all blank, ${NO_CONTROLS}; or "" or null`
  return Schema.NullOr(
    Schema.String.annotate({ description }).check(
      Schema.isBetweenCodePoints(0, max),
      Schema.makeFilter((value: string) => value === "" || isVisible(value)),
      withoutControls,
    ),
  ).annotate({ description })
}

/** A parameter that may be left out, and is `value` then, as the OpenAPI document says. */
export const byDefault = <S extends Schema.Top>(schema: S, value: S["Type"]) =>
  Schema.optionalKey(schema.annotate({ default: value }))

/** Longer addresses are taken by few servers. */
const MAX_URL = 2_048

/** An address of the web; `more` says which of them besides those with https. */
export const webAddress = (more: string) => {
  const description = `an address of at most ${MAX_URL} characters that begins with https:// (${more})`
  return Schema.String.annotate({ description, format: "uri" })
    .check(Schema.makeFilter((value: string) => value.length <= MAX_URL && isWebAddress(value)))
    .annotate({ description })
}

/** How the descriptions of references begin. */
export const REFERENCE = "the ID of"

export const id = (what: string) =>
  Schema.String.annotate({ description: `${REFERENCE} ${what}` })
    .check(Schema.isBetweenCodePoints(1, MAX_ID))
    .annotate({ description: `${REFERENCE} ${what}` })

export const integer = (minimum: number, maximum: number, what = "an integer") =>
  Schema.Int.check(Schema.isBetween({ minimum, maximum })).annotate({
    description: `${what} from ${minimum} to ${maximum}`,
  })

export const count = integer(1, MAX_COUNT)

/** Kobo (decision B4). */
export const amount = integer(100, MAX_AMOUNT_KOBO, "an integer number of kobo")

export const oneOf = <const L extends ReadonlyArray<string>>(values: L) =>
  Schema.Literals(values).annotate({ description: `one of ${values.join(", ")}` })

export const flag = Schema.Boolean.annotate({ description: "true or false" })

export const currency = Schema.Literal("NGN").annotate({ description: "NGN, the only currency" })

export const INSTANT = `a timestamp in UTC such as 2026-01-31T09:00:00Z, from ${FIRST_YEAR} to ${LAST_YEAR}`

/** A real instant, as text (decision A8). */
export const instant = Schema.String.annotate({ description: INSTANT, format: "date-time" })
  .check(Schema.makeFilter((value: string) => parseInstant(value) !== undefined))
  .annotate({ description: INSTANT })

/** How the OpenAPI document knows a number of a query, which is text. */
export const NUMBER_FORMAT = "int32"

/** A number as a query has it: in digits, 1 to `maximum`. `more` stands in the document alone. */
export const numberInQuery = (maximum: number, what = "an integer", more = "") => {
  const description = `${what} from 1 to ${maximum}`
  return Schema.String.annotate({ description: `${description}${more}`, format: NUMBER_FORMAT })
    .check(
      Schema.makeFilter(
        (value: string) =>
          /^\d+$/.test(value) &&
          value.length <= String(maximum).length &&
          Number(value) >= 1 &&
          Number(value) <= maximum,
        { toJsonSchema: () => ({ minimum: 1, maximum }) },
      ),
    )
    .annotate({ description })
}

/**
 * A local part, and a domain of two labels at least; dots and the hyphens of a domain only between other characters. The length is looked at
 * first: what the rest takes grows with its square.
 */
const EMAIL =
  /^(?=.{1,254}$)(?!\.|.*\.\.|.*\.@|.*@.*\.-|.*@.*-\.)[^\s@<>()",;:\\]{1,64}@[^\s@<>()[\]",;:\\.-][^\s@<>()[\]",;:\\]*\.[^\s@<>()[\]",;:\\.]+[^\s@<>()[\]",;:\\.-]$/

export const email = Schema.NullOr(
  Schema.String.annotate({ format: "email" }).check(Schema.isPattern(EMAIL), Schema.isMaxLength(254)),
).annotate({
  description: "an e-mail address, or null",
})

const PHONE = "a phone number that can exist, in E.164 form such as +2348031234567, or null"

/** A number in E.164 form (decision C5); the message says how another form of a number is written. */
export const phone = Schema.NullOr(
  Schema.String.annotate({ description: PHONE })
    .check(
      Schema.makeFilter(
        (value: string) => {
          if (isPhone(value)) return true
          const meant = parsePhone(value)
          return meant === undefined ? false : `${PHONE}: write ${meant}`
        },
        { toJsonSchema: () => ({ pattern: E164.source }) },
      ),
    )
    .annotate({ description: PHONE }),
).annotate({ description: PHONE })

/** At most `max` bytes as JSON in UTF-8; the message also says how many there are. */
const atMostBytes = (max: number, description: string) =>
  Schema.makeFilter((value: object) => {
    const bytes = jsonBytes(value)
    return bytes <= max || `${description}; it has ${bytes} bytes`
  })

const metadataValue = Schema.String.check(Schema.isBetweenCodePoints(0, MAX_METADATA_VALUE)).annotate({
  description: `a string of at most ${MAX_METADATA_VALUE} characters`,
})
const metadataKeys = Schema.makeFilter((value: object) =>
  Object.keys(value).every((key) => key !== "" && [...key].length <= MAX_METADATA_KEY),
)

const METADATA = `an object of at most ${MAX_METADATA_KEYS} keys of 1 to ${MAX_METADATA_KEY} characters, each with a string of at most ${MAX_METADATA_VALUE} characters, of at most 44 KiB (${MAX_METADATA_BYTES} bytes) as JSON in UTF-8`

export const metadata = Schema.Record(Schema.String, metadataValue)
  .annotate({ description: METADATA })
  .check(
    metadataKeys,
    Schema.makeFilter((value: object) => Object.keys(value).length <= MAX_METADATA_KEYS),
    atMostBytes(MAX_METADATA_BYTES, METADATA),
  )
  .annotate({ description: METADATA })

/** In a PATCH keys merge, `""` removes one, and null clears all; the limits hold for the result (decision B6), so also for what is set. */
export const metadataPatch = Schema.NullOr(
  Schema.Record(Schema.String, metadataValue).check(
    metadataKeys,
    Schema.makeFilter((value: object) => Object.values(value).filter((set) => set !== "").length <= MAX_METADATA_KEYS),
  ),
).annotate({
  description: `${METADATA}, or null; keys merge, an empty string removes one, and null clears all`,
})

/** The path of the first number that no double holds: `parseBody` gives Infinity for it. */
const unheldNumber = (value: unknown): ReadonlyArray<PropertyKey> | undefined => {
  if (typeof value === "number") return Number.isFinite(value) ? undefined : []
  if (typeof value !== "object" || value === null) return undefined
  for (const [key, inner] of Object.entries(value)) {
    const path = unheldNumber(inner)
    if (path !== undefined) return [Array.isArray(value) ? Number(key) : key, ...path]
  }
  return undefined
}

const heldNumbers = Schema.makeFilter((value: object) => {
  const path = unheldNumber(value)
  return path === undefined
    ? true
    : { path, issue: "a number that a double (64-bit floating point) holds unchanged: send it as a string" }
})

/** An object that merchants fill freely, which comes back as it was sent (decision C7). */
export const freeObject = (what: string) => {
  const description = `${what} of at most 16 KiB (${MAX_FREE_BYTES} bytes) as JSON in UTF-8, in which every number is one that a double holds unchanged`
  return Schema.Record(Schema.String, Schema.Unknown)
    .annotate({ description })
    .check(heldNumbers, atMostBytes(MAX_FREE_BYTES, description))
    .annotate({ description })
}
