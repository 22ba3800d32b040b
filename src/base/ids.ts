/** Identifiers: `prefix_` + a UUIDv7 in 26 lower-case Crockford base32 characters (decision B1). */
import { randomFillSync } from "node:crypto"
import { Struct } from "effect"
import { currentTime } from "./wallClock.ts"

export const PREFIXES = {
  account: "acct",
  plan: "plan",
  customer: "cus",
  subscription: "sub",
  charge: "chg",
  payment_method: "pm",
  event: "evt",
  unit_record: "ur",
  test_clock: "clock",
  request: "req",
  key: "key",
  ledger_entry: "le",
  provider_change: "pch",
  plan_change: "apc",
  letter: "ltr",
  member: "mem",
  sign_in: "si",
  dashboard_session: "ses",
  passkey: "pky",
  activity: "act",
  invoice: "inv",
  webhook_endpoint: "we",
  delivery: "dlv",
  nudge: "ndg",
  checkout_session: "cs",
  refund: "rf",
  rail_credential: "rcr",
  rail_exception: "rex",
  instalment_product: "prd",
  settlement_import: "stl",
  /** A charge that only saves a payment method. The API does not show it. */
  verification: "cvr",
} as const

export type IdKind = keyof typeof PREFIXES

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
const RANDOM_POOL = 4096

const pool = new Uint16Array(RANDOM_POOL)
let poolAt = RANDOM_POOL
let lastMs = 0
/** Within a millisecond IDs count up, so that a batch keeps its order (RFC 9562, method 1). */
let sequence = 0

const random16 = (): number => {
  if (poolAt >= RANDOM_POOL) {
    randomFillSync(pool)
    poolAt = 0
  }
  return pool[poolAt++]!
}

const MAX_SEQUENCE = 0x3ffffff

/** Advances to the next position in the order of IDs: a millisecond and a number within it. */
const advance = (): void => {
  const now = currentTime()
  if (now > lastMs) {
    lastMs = now
    sequence = (random16() << 4) | (random16() >> 12)
  } else if (++sequence > MAX_SEQUENCE) {
    lastMs++
    sequence = 0
  }
}

/** Two characters for each ten bits. */
const PAIRS = Array.from({ length: 1 << 10 }, (_, bits) => ALPHABET[bits >> 5]! + ALPHABET[bits & 31]!)

/** The two characters of the lowest ten bits; higher bits and fractions are ignored. */
const pair = (bits: number): string => PAIRS[bits & 0x3ff]!

let timeAt = -1
let timeText = ""

/** The 10 characters of the time: 48 bits after two zero bits. */
const timeCharacters = (ms: number): string => {
  if (ms !== timeAt) {
    timeAt = ms
    timeText = pair(ms / 2 ** 40) + pair(ms / 2 ** 30) + pair(ms / 2 ** 20) + pair(ms / 2 ** 10) + pair(ms)
  }
  return timeText
}

const VERSION = 7
const VARIANT = 2

/** The 26 characters of a UUIDv7: 48 bits of time, version, 26 bits of sequence, variant, 48 random bits (`order` is the first 32). */
const uuidv7Base32 = (
  time: number,
  sequence: number,
  order: number = random16() * 0x10000 + random16(),
  last: number = random16(),
): string =>
  timeCharacters(time) +
  pair((VERSION << 6) | (sequence >> 20)) +
  pair((((sequence >> 14) & 0x3f) << 4) | (VARIANT << 2) | ((sequence >> 12) & 3)) +
  pair(sequence >> 2) +
  pair(((sequence & 3) << 8) | (order >>> 24)) +
  pair(order >>> 14) +
  pair(order >>> 4) +
  pair(((order & 0xf) << 6) | (last >> 10)) +
  pair(last)

/** A window of a test clock's time that is being processed. IDs made in it sort in the order of that time. */
export interface IdWindow {
  /** In the clock's time. */
  readonly fromAt: number
  /** When it was opened, by the wall clock: its IDs begin with this time. */
  readonly openedAt: number
}

/** Every window is shorter: it uses the numbers of two milliseconds, one for each millisecond of its own. */
const MAX_WINDOW_MS = 2 * MAX_SEQUENCE

/** The run that processes a window: with several runs over one clock in a process, no run closes the window of another. */
type Holder = object

interface Numbering extends IdWindow {
  readonly holder: Holder
  /** The order of the newest ID. */
  order: number
}

/** The open windows of this process, by clock. */
const windows = new Map<string, Numbering>()

/** Processes make the IDs of a window one after the other; no process makes more in a millisecond. */
const ORDERS_A_MS = 128
const MAX_ORDER = 2 ** 32 - 1

const reserve = (openedAt: number): void => {
  if (lastMs >= openedAt + 2) return
  lastMs = openedAt + 2
  sequence = 0
}

/**
 * Returns the `openedAt` of a window that opens now: later than every ID of this process and than the window `before`, and earlier than
 * all IDs still to come.
 */
export const opensAt = (before: number | null): number => {
  const openedAt = Math.max(currentTime(), lastMs + 1, (before ?? 0) + 3)
  reserve(openedAt)
  return openedAt
}

/** Opens a window: {@link newId} now orders IDs on this clock by the clock's time. */
export const openWindow = (clockId: string, holder: Holder, { fromAt, openedAt }: IdWindow): void => {
  const current = windows.get(clockId)
  if (current?.holder === holder && current.openedAt === openedAt) return
  reserve(openedAt)
  windows.set(clockId, { fromAt, openedAt, holder, order: 0 })
}

export const closeWindow = (clockId: string, holder: Holder): void => {
  if (windows.get(clockId)?.holder === holder) windows.delete(clockId)
}

/** What decides the order of an ID on a test clock: the clock and the time on it. */
export interface IdTime {
  readonly test_clock_id: string | null
  readonly at: number
}

/** The ID text within a window: ordered by the clock's time, then by when it is made, across processes. */
const idInWindow = (window: Numbering, at: number): string => {
  const place = Math.min(Math.max(at - window.fromAt, 0), MAX_WINDOW_MS - 1)
  const since = (currentTime() - window.openedAt) * ORDERS_A_MS
  window.order = Math.min(Math.max(window.order + 1, since), MAX_ORDER)
  return uuidv7Base32(window.openedAt + Math.floor(place / MAX_SEQUENCE), place % MAX_SEQUENCE, window.order)
}

/**
 * Creates a new ID. Later IDs of one process sort after earlier ones. IDs of objects `made` on a moving test clock sort in the order of
 * the clock's time.
 */
export const newId = (kind: IdKind, made?: IdTime): string => {
  const window = made === undefined || made.test_clock_id === null ? undefined : windows.get(made.test_clock_id)
  if (window !== undefined) return `${PREFIXES[kind]}_${idInWindow(window, made!.at)}`
  advance()
  return `${PREFIXES[kind]}_${uuidv7Base32(lastMs, sequence)}`
}

/** Returns a bound that every ID made before an instant of the wall clock is less than. */
export const idBefore = (kind: IdKind, at: number): string => `${PREFIXES[kind]}_${timeCharacters(at)}`

/** Whether an ID was made at an instant of the wall clock or later. */
export const isMadeSince = (id: string, at: number): boolean => id.slice(id.indexOf("_") + 1) >= timeCharacters(at)

const TIME_CHARACTERS = 10

/** When an ID was made, by the wall clock (ms since the epoch), read from the ID. On a moving test clock: when its window was opened. */
export const madeAt = (id: string): number => {
  const start = id.indexOf("_") + 1
  return [...id.slice(start, start + TIME_CHARACTERS)].reduce((ms, digit) => ms * 32 + ALPHABET.indexOf(digit), 0)
}

const CODE_LENGTH = 10

/** Creates the ID that the API shows for an instalment plan (decision B1): `SB-` and 10 random characters of the alphabet in capitals. */
export const newPlanCode = (): string => {
  const characters = Array.from({ length: CODE_LENGTH }, () => ALPHABET[random16() & 31])
  return `SB-${characters.join("").toUpperCase()}`
}

/** Whether `text` has the shape of an instalment plan's ID. */
export const isPlanCode = (text: string): boolean => /^SB-[0-9A-HJKMNP-TV-Z]{10}$/.test(text)

const SHAPE = /^[a-z]+_[0-9a-hjkmnp-tv-z]{26}$/
/** The ID of a delivery made by an event: the event's ID and the endpoint's. */
const OF_BOTH = /^dlv_[0-9a-hjkmnp-tv-z]{26}_[0-9a-hjkmnp-tv-z]{26}$/

/** Whether `text` has the shape of an ID of that kind. The object may not exist. */
export const isId = (kind: IdKind, text: string): boolean =>
  text.startsWith(`${PREFIXES[kind]}_`) && (SHAPE.test(text) || (kind === "delivery" && OF_BOTH.test(text)))

/** The kind of object that an ID belongs to, by its prefix. */
export const kindOf = (id: string): IdKind | undefined => Struct.keys(PREFIXES).find((kind) => isId(kind, id))
