/** The faults of rails, with names that can be counted. `much` (0 to 999) is the size of a fault. */
import { type Fault, faults } from "../support/rails/fault.ts"

const WORDS = [
  "Insufficient Funds",
  "Do Not Honour",
  "Declined",
  "exceeds withdrawal limit",
  "issuer or switch inoperative",
  "unknown error",
  "Expired card",
  "Lost card",
  "Restricted Card",
  "Transaction not permitted",
  "Denied by Fraud System",
  "Incorrect PIN",
  "Your bank said something new",
]

const wordsOf = (much: number): string => WORDS[much % WORDS.length]!
const asksOf = (much: number): number => 1 + (much % 4)
const DELAY_MS = 30

/** Much less than any charge. */
const shortOf = (amountKobo: number, much: number): number => amountKobo - 1 - (much % 5_000)

type MakeFault = (much: number, amountKobo: number) => Fault | undefined

const decline = (much: number) => ({ kind: "decline", words: wordsOf(much) }) as const

/** For any call. */
const TRANSPORT = {
  "cut before": () => faults.silenceBefore(),
  "cut after": () => faults.silenceAfter(),
  "503 before": () => faults.unavailableBefore(),
  "500 in HTML before": () => faults.html500(),
  "500 in HTML after": () => faults.html500("after"),
  "200 in HTML after": () => faults.html200("after"),
  "truncated JSON": () => faults.truncatedJson(),
  "cut body": () => faults.cutBody(),
  "wrong types": () => faults.wrongTypes(),
  "wrong reference": () => faults.wrongReference(),
  "429": () => faults.tooMany(),
  "429 with Retry-After": (much) => faults.tooMany(1 + (much % 300)),
  "401": () => faults.unauthorized(),
  slow: () => faults.delay(DELAY_MS),
} satisfies Readonly<Record<string, MakeFault>>

/** For a charge. */
const OF_CHARGES = {
  declined: (much) => faults.decline(wordsOf(much)),
  "declined with HTTP 400": (much) => faults.decline(wordsOf(much), { spoken: "error" }),
  "declined, answer cut": (much) => faults.silenceAfter("cut", decline(much)),
  "503 after": () => faults.unavailableAfter(),
  "503, pending": (much) => faults.unavailableAfter(asksOf(much)),
  pending: (much) => faults.pendingUntil(asksOf(much)),
  "pending for ever until it is settled": () => faults.pendingUntil(Number.POSITIVE_INFINITY),
  "pending, then fails": (much) => faults.lateFailure(asksOf(much), wordsOf(much)),
  "failed, then succeeds": (much) => faults.lateSuccess(asksOf(much), wordsOf(much)),
  "step-up": () => faults.stepUp(),
  "takes less": (much, amountKobo) => faults.wrongAmount(shortOf(amountKobo, much)),
  "takes more": (much, amountKobo) => faults.wrongAmount(amountKobo + 1 + much),
  "takes it twice": () => faults.twice(),
  "takes dollars": () => faults.wrongCurrency(),
} satisfies Readonly<Record<string, MakeFault>>

/**
 * Not included: a refund that fails later. After a lost first answer, the second request gets that the money is already
 * sent back, and no further question follows.
 */
const OF_REFUNDS = {
  "refund fails": () => faults.refundFails(),
  "refund pending": (much) => faults.refundPendingUntil(asksOf(much)),
} satisfies Readonly<Record<string, MakeFault>>

const ALL = { none: () => undefined, ...TRANSPORT, ...OF_CHARGES, ...OF_REFUNDS } satisfies Readonly<
  Record<string, MakeFault>
>

export type FaultName = keyof typeof ALL

const namesOf = (table: object) => Object.keys(table) as ReadonlyArray<FaultName>

/** For questions, and for pages that are opened. */
export const TRANSPORT_FAULTS = namesOf(TRANSPORT)
export const CHARGE_FAULTS = [...TRANSPORT_FAULTS, ...namesOf(OF_CHARGES)]
/** For buyers' payments on pages. */
export const PAYMENT_FAULTS = namesOf(OF_CHARGES).filter((name) => name !== "step-up")
export const REFUND_FAULTS = [...namesOf(TRANSPORT), ...namesOf(OF_REFUNDS)]

export const faultOf = (name: FaultName, much: number, amountKobo: number): Fault | undefined =>
  (ALL[name] as MakeFault)(much, amountKobo)
