/** The kinds of parameters that bodies and queries are made of. Descriptions say what a value must be. */
import { Schema } from "effect"
import { MAX_METADATA_KEYS } from "../metadata.ts"
import { MAX_AMOUNT_KOBO } from "../money.ts"
import { parseInstant } from "../time.ts"

const MAX_ID = 64
const MAX_METADATA_KEY = 40
const MAX_METADATA_VALUE = 500
const MAX_COUNT = 2_147_483_647

export const text = (max: number) =>
  Schema.String.check(Schema.isBetweenCodePoints(1, max)).annotate({
    description: `a string of 1 to ${max} characters`,
  })

export const textOrNull = (max: number) =>
  Schema.NullOr(Schema.String.check(Schema.isBetweenCodePoints(0, max))).annotate({
    description: `a string of at most ${max} characters, or null`,
  })

export const id = (what: string) =>
  Schema.String.check(Schema.isBetweenCodePoints(1, MAX_ID)).annotate({ description: `the ID of ${what}` })

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

/** An instant as milliseconds since the epoch (decision A8). */
export const instant = Schema.String.check(
  Schema.makeFilter((value: string) => parseInstant(value) !== undefined),
).annotate({ description: "a timestamp in UTC such as 2026-01-31T09:00:00Z" })

export const email = Schema.NullOr(
  Schema.String.check(
    Schema.isPattern(
      /^(?=.{1,254}$)(?!.*\.\.)[^\s@<>()",;:\\]{1,64}@[^\s@<>()",;:\\.][^\s@<>()",;:\\]*\.[^\s@<>()",;:\\.]{2,}$/,
    ),
    Schema.isMaxLength(254),
  ),
).annotate({ description: "an e-mail address, or null" })

export const phone = Schema.NullOr(Schema.String.check(Schema.isPattern(/^\+[1-9]\d{6,14}$/))).annotate({
  description: "a phone number in E.164 form such as +2348031234567, or null",
})

const metadataValue = Schema.String.check(Schema.isBetweenCodePoints(0, MAX_METADATA_VALUE)).annotate({
  description: `a string of at most ${MAX_METADATA_VALUE} characters`,
})
const metadataKeys = Schema.makeFilter((value: object) =>
  Object.keys(value).every((key) => key !== "" && [...key].length <= MAX_METADATA_KEY),
)

const METADATA = `an object of at most ${MAX_METADATA_KEYS} keys of at most ${MAX_METADATA_KEY} characters, each with a string of at most ${MAX_METADATA_VALUE} characters`

export const metadata = Schema.Record(Schema.String, metadataValue)
  .check(
    metadataKeys,
    Schema.makeFilter((value: object) => Object.keys(value).length <= MAX_METADATA_KEYS),
  )
  .annotate({ description: METADATA })

/** In a PATCH keys merge, `""` removes one, and null clears all; the limit holds for the result (decision B6). */
export const metadataPatch = Schema.NullOr(Schema.Record(Schema.String, metadataValue).check(metadataKeys)).annotate({
  description: `${METADATA}, or null`,
})
