/**
 * The kinds of parameters of bodies and queries. Descriptions say what a value must be. If JSON Schema cannot express a check,
 * the OpenAPI document leaves the check and its description out: such a schema has the description a second time.
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
/** Limit of free-form objects from merchants (decision C7): two of them fit into an event. */
const MAX_FREE_BYTES = 16 * 1024

const NO_CONTROLS = "without control characters other than tab and line ends"

/** Refuses control characters that no text needs. JSON Schema's patterns cannot express it portably. */
const withoutControls = Schema.makeFilter((value: string) => !hasControls(value) || `a string ${NO_CONTROLS}`)

/** A text for people to read: it must show at least one character (decision A5). The pattern in the document is the nearest portable one. */
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

/** An optional parameter with a default value, which the OpenAPI document shows. */
export const byDefault = <S extends Schema.Top>(schema: S, value: S["Type"]) =>
  Schema.optionalKey(schema.annotate({ default: value }))

/** Few servers accept longer addresses. */
const MAX_URL = 2_048

/** A web address; `more` describes the allowed addresses other than https. */
export const webAddress = (more: string) => {
  const description = `an address of at most ${MAX_URL} characters that begins with https:// (${more})`
  return Schema.String.annotate({ description, format: "uri" })
    .check(Schema.makeFilter((value: string) => value.length <= MAX_URL && isWebAddress(value)))
    .annotate({ description })
}

/** The start of the descriptions of references. */
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

/** Marks a number in a query, which is text, for the OpenAPI document. */
export const NUMBER_FORMAT = "int32"

/** A number in a query: digits, 1 to `maximum`. `more`: an addition for the document only. */
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
 * A local part, and a domain of at least two labels; dots, and hyphens in a domain, only between other characters. The length is checked
 * first: the time of the rest grows with its square.
 */
const EMAIL =
  /^(?=.{1,254}$)(?!\.|.*\.\.|.*\.@|.*@.*\.-|.*@.*-\.)[^\s@<>()",;:\\]{1,64}@[^\s@<>()[\]",;:\\.-][^\s@<>()[\]",;:\\]*\.[^\s@<>()[\]",;:\\.]+[^\s@<>()[\]",;:\\.-]$/

export const email = Schema.NullOr(
  Schema.String.annotate({ format: "email" }).check(Schema.isPattern(EMAIL), Schema.isMaxLength(254)),
).annotate({
  description: "an e-mail address, or null",
})

const PHONE = "a phone number that can exist, in E.164 form such as +2348031234567, or null"

/** A number in E.164 form (decision C5). For another form of a possible number, the message shows the E.164 form. */
export const phone = Schema.NullOr(
  Schema.String.annotate({ description: PHONE })
    .check(
      Schema.makeFilter(
        (value: string) => {
          if (isPhone(value)) return true
          const parsed = parsePhone(value)
          return parsed === undefined ? false : `${PHONE}: write ${parsed}`
        },
        { toJsonSchema: () => ({ pattern: E164.source }) },
      ),
    )
    .annotate({ description: PHONE }),
).annotate({ description: PHONE })

/** Allows at most `max` bytes as JSON in UTF-8; the message also says how many the value has. */
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

/** Metadata in a PATCH: keys merge, `""` removes one, and null clears all. The limits apply to the result (decision B6), so also to the sent keys. */
export const metadataPatch = Schema.NullOr(
  Schema.Record(Schema.String, metadataValue).check(
    metadataKeys,
    Schema.makeFilter((value: object) => Object.values(value).filter((set) => set !== "").length <= MAX_METADATA_KEYS),
  ),
).annotate({
  description: `${METADATA}, or null; keys merge, an empty string removes one, and null clears all`,
})

/** Returns the path of the first number that a double does not represent exactly: `parseBody` made it Infinity. */
const inexactNumber = (value: unknown): ReadonlyArray<PropertyKey> | undefined => {
  if (typeof value === "number") return Number.isFinite(value) ? undefined : []
  if (typeof value !== "object" || value === null) return undefined
  for (const [key, inner] of Object.entries(value)) {
    const path = inexactNumber(inner)
    if (path !== undefined) return [Array.isArray(value) ? Number(key) : key, ...path]
  }
  return undefined
}

const exactNumbers = Schema.makeFilter((value: object) => {
  const path = inexactNumber(value)
  return path === undefined
    ? true
    : { path, issue: "a number that a double (64-bit floating point) holds unchanged: send it as a string" }
})

/** A free-form object from merchants, which is returned as it was sent (decision C7). */
export const freeObject = (what: string) => {
  const description = `${what} of at most 16 KiB (${MAX_FREE_BYTES} bytes) as JSON in UTF-8, in which every number is one that a double holds unchanged`
  return Schema.Record(Schema.String, Schema.Unknown)
    .annotate({ description })
    .check(exactNumbers, atMostBytes(MAX_FREE_BYTES, description))
    .annotate({ description })
}
