/**
 * Builds and reads the metadata that every charge sends to its rail (decision F9). A restored database uses it to enter an unknown
 * transaction as the original charge. All values are strings, since rails differ in what else they store. Pure.
 */
import { Schema } from "effect"
import { LINE_TYPES, MAX_AMOUNT_KOBO, totalOf } from "../../../machines/billing.ts"
import { ATTEMPT_ORIGINS } from "../../../machines/dunning.ts"
import { BILL_PURPOSES, type Bill } from "../../../machines/periods.ts"
import { parseExactly } from "../../base/json.ts"
import { formatInstant, parseInstant } from "../../base/time.ts"
import type { TransactionMetadata } from "../../rails/rail/Rail.ts"
import type { ChargeRow } from "../charge/charge.ts"

const { Boolean: Bool, Int, Literals, NullOr, optionalKey, String: Text, Struct } = Schema

const kobo = Int.check(Schema.isBetween({ minimum: -MAX_AMOUNT_KOBO, maximum: MAX_AMOUNT_KOBO }))
const instant = Int.check(Schema.isBetween({ minimum: 0, maximum: 8.64e15 }))
const count = Int.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 31 - 1 }))
const short = Text.check(Schema.isMaxLength(300))
/** A bill has five kinds of lines. */
const MAX_LINES = 10

const Line = Struct({ type: Literals(LINE_TYPES), description: short, quantity: Int, unit_amount: kobo, amount: kobo })

/** The parts of a charge without a metadata field of their own, as JSON under `details`. */
const Details = Struct({
  lines: Schema.Array(Line).check(Schema.isMaxLength(MAX_LINES)),
  hosted: Bool,
  method: NullOr(short),
  named: Bool,
  page: NullOr(short),
  submission: NullOr(short),
  retry_of: NullOr(short),
  description: NullOr(short),
  /** For an attempt at a subscription's bill, while that is the subscription's newest bill. */
  bill: optionalKey(
    Struct({
      purpose: Literals(BILL_PURPOSES),
      origin: Literals(ATTEMPT_ORIGINS),
      attempted_at: instant,
      anchor_at: instant,
      period_no: count,
      quantity: count,
    }),
  ),
})

/** A charge as its metadata describes it. */
export interface Described extends Omit<typeof Details.Type, "bill"> {
  readonly account: string
  readonly environment: string
  readonly customer: string
  readonly attempt: number
  readonly amountKobo: number
  readonly subscription: string | null
  /** For an attempt at a subscription's bill. */
  readonly bill: Pick<Bill, "no" | "periodStart" | "periodEnd"> | null
  readonly billDetails: NonNullable<(typeof Details.Type)["bill"]> | null
}

const detailsOf = (charge: ChargeRow, bill: Bill | null): typeof Details.Type => ({
  lines: charge.lines,
  hosted: charge.hosted,
  method: charge.payment_method?.id ?? null,
  named: charge.payment_method_named,
  page: charge.page_id,
  submission: charge.submission,
  retry_of: charge.retry_of,
  description: charge.description,
  ...(bill === null || bill.no !== charge.bill_no
    ? {}
    : {
        bill: {
          purpose: bill.purpose,
          origin: bill.origin,
          attempted_at: bill.attemptedAt,
          anchor_at: bill.anchorAt,
          period_no: bill.periodNo,
          quantity: bill.quantity,
        },
      }),
})

/** The metadata of a charge. `bill`: the bill that its subscription is collecting, if any. The merchant's own metadata is not sent. */
export const railMetadataOf = (charge: ChargeRow, bill: Bill | null): TransactionMetadata => ({
  account: charge.account_id,
  environment: charge.livemode ? "live" : "sandbox",
  customer: charge.customer_id,
  attempt: String(charge.attempt_number),
  amount: String(charge.amount_kobo),
  ...(charge.subscription_id === null
    ? {}
    : {
        subscription: charge.subscription_id,
        bill: String(charge.bill_no),
        period: `${formatInstant(charge.period_start_at!)}/${formatInstant(charge.period_end_at!)}`,
      }),
  details: JSON.stringify(detailsOf(charge, bill)),
})

const readDetails = Schema.decodeUnknownOption(Details)

const wholeNumberIn = (value: unknown, most: number): number | undefined => {
  const text = typeof value === "number" ? String(value) : value
  if (typeof text !== "string" || !/^[1-9]\d{0,10}$/.test(text)) return undefined
  return Number(text) <= most ? Number(text) : undefined
}

const MAX_NUMBER = 2 ** 31 - 1

const periodIn = (value: unknown): Pick<Bill, "periodStart" | "periodEnd"> | undefined => {
  const [start, end, more] = typeof value === "string" ? value.split("/").map(parseInstant) : []
  const isPeriod = start !== undefined && end !== undefined && more === undefined && start < end
  return isPeriod ? { periodStart: start, periodEnd: end } : undefined
}

const billIn = (fields: Readonly<Record<string, unknown>>): Described["bill"] | undefined => {
  const no = wholeNumberIn(fields.bill, MAX_NUMBER)
  const period = periodIn(fields.period)
  return no === undefined || period === undefined ? undefined : { no, ...period }
}

/** Reads metadata, which rails return as an object or as its JSON. */
const fieldsIn = (value: unknown): Readonly<Record<string, unknown>> | undefined => {
  const read = typeof value === "string" ? parseExactly(value) : value
  return typeof read === "object" && read !== null && !Array.isArray(read)
    ? (read as Readonly<Record<string, unknown>>)
    : undefined
}

/** Whether metadata may be ours: it names an account. */
export const namesAccount = (value: unknown): boolean => typeof fieldsIn(value)?.account === "string"

/** Reads the charge that metadata describes; undefined if the metadata is not ours, or incomplete. */
export const describedBy = (value: unknown): Described | undefined => {
  const fields = fieldsIn(value)
  if (fields === undefined) return undefined
  const { account, environment, customer, subscription = null, details: text } = fields
  const details = readDetails(typeof text === "string" ? parseExactly(text) : undefined)
  const attempt = wholeNumberIn(fields.attempt, MAX_NUMBER)
  const amountKobo = wholeNumberIn(fields.amount, MAX_AMOUNT_KOBO)
  if (typeof account !== "string" || typeof environment !== "string" || typeof customer !== "string") return undefined
  if (details._tag === "None" || attempt === undefined || amountKobo === undefined) return undefined
  if (subscription !== null && typeof subscription !== "string") return undefined
  const bill = subscription === null ? null : billIn(fields)
  if (bill === undefined) return undefined
  const { bill: billDetails = null, ...rest } = details.value
  if (rest.lines.length > 0 && totalOf(rest.lines) !== amountKobo) return undefined
  return { ...rest, account, environment, customer, attempt, amountKobo, subscription, bill, billDetails }
}
