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
  owner_email: "oem",
  invoice: "inv",
  webhook_endpoint: "we",
  delivery: "dlv",
  nudge: "ndg",
  checkout_session: "cs",
  refund: "rf",
  rail_credential: "rcr",
  rail_exception: "rex",
  instalment_product: "prd",
  /** A charge that only saves a payment method, which the API does not show. */
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

/** The next place in the order of IDs: a millisecond, and a number within it. */
const nextPlace = (): void => {
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

/** Of the lowest ten bits; what is above them, and behind a point, does not count. */
const pair = (bits: number): string => PAIRS[bits & 0x3ff]!

let timeAt = -1
let timeText = ""

/** 10 characters: those of the time, 48 bits behind two zeros. */
const timeCharacters = (ms: number): string => {
  if (ms !== timeAt) {
    timeAt = ms
    timeText = pair(ms / 2 ** 40) + pair(ms / 2 ** 30) + pair(ms / 2 ** 20) + pair(ms / 2 ** 10) + pair(ms)
  }
  return timeText
}

const VERSION = 7
const VARIANT = 2

/** 26 characters of a UUIDv7: 48 bits of time, version, 26 bits of sequence, variant, 48 random bits, `order` in their first 32. */
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

/** A window of a test clock's time that is being gone through: what is made in it is numbered in the order of that time. */
export interface IdWindow {
  /** On the clock. */
  readonly fromAt: number
  /** On the wall clock, when it was opened: the time that its IDs begin with. */
  readonly openedAt: number
}

/** A window is shorter: it has the numbers of two milliseconds, one for each of its own. */
const MAX_WINDOW_MS = 2 * MAX_SEQUENCE

/** Whoever goes through a window: of a process's several runs over one clock, none closes another's. */
type Holder = object

interface Numbering extends IdWindow {
  readonly holder: Holder
  /** The place of the newest ID. */
  order: number
}

/** The windows of clocks that this process moves, by clock. */
const windows = new Map<string, Numbering>()

/** A window's IDs are made by whole processes one after the other: no process makes more in a millisecond. */
const ORDERS_A_MS = 128
const MAX_ORDER = 2 ** 32 - 1

const reserve = (openedAt: number): void => {
  if (lastMs >= openedAt + 2) return
  lastMs = openedAt + 2
  sequence = 0
}

/**
 * When a window that opens now says that it was opened: later than every ID of this process and than the window `before`, and earlier
 * than what is to come.
 */
export const opensAt = (before: number | null): number => {
  const openedAt = Math.max(currentTime(), lastMs + 1, (before ?? 0) + 3)
  reserve(openedAt)
  return openedAt
}

/** From now on {@link newId} numbers what is made on the clock by the clock's time. */
export const openWindow = (clockId: string, holder: Holder, { fromAt, openedAt }: IdWindow): void => {
  const known = windows.get(clockId)
  if (known?.holder === holder && known.openedAt === openedAt) return
  reserve(openedAt)
  windows.set(clockId, { fromAt, openedAt, holder, order: 0 })
}

export const closeWindow = (clockId: string, holder: Holder): void => {
  if (windows.get(clockId)?.holder === holder) windows.delete(clockId)
}

/** Whatever an ID's order may follow: the clock that it is made on, and when by that. */
export interface Made {
  readonly test_clock_id: string | null
  readonly at: number
}

/** The place of an ID within a window: by the clock's time, then by when it is made, whichever process makes it. */
const placeIn = (window: Numbering, at: number): string => {
  const place = Math.min(Math.max(at - window.fromAt, 0), MAX_WINDOW_MS - 1)
  const since = (currentTime() - window.openedAt) * ORDERS_A_MS
  window.order = Math.min(Math.max(window.order + 1, since), MAX_ORDER)
  return uuidv7Base32(window.openedAt + Math.floor(place / MAX_SEQUENCE), place % MAX_SEQUENCE, window.order)
}

/**
 * A fresh ID. Later IDs of one process sort after earlier ones; those of what is `made` on a test clock that moves, in the order
 * of its time.
 */
export const newId = (kind: IdKind, made?: Made): string => {
  const window = made === undefined || made.test_clock_id === null ? undefined : windows.get(made.test_clock_id)
  if (window !== undefined) return `${PREFIXES[kind]}_${placeIn(window, made!.at)}`
  nextPlace()
  return `${PREFIXES[kind]}_${uuidv7Base32(lastMs, sequence)}`
}

/** What the ID of whatever was made before an instant of the wall clock is less than. */
export const idBefore = (kind: IdKind, at: number): string => `${PREFIXES[kind]}_${timeCharacters(at)}`

/** Whether an ID was made at an instant of the wall clock or later. */
export const isMadeSince = (id: string, at: number): boolean => id.slice(id.indexOf("_") + 1) >= timeCharacters(at)

const TIME_CHARACTERS = 10

/** When an ID was made by the wall clock (ms since the epoch), as it says itself; on a test clock that moves, when its window was opened. */
export const madeAt = (id: string): number => {
  const start = id.indexOf("_") + 1
  return [...id.slice(start, start + TIME_CHARACTERS)].reduce((ms, digit) => ms * 32 + ALPHABET.indexOf(digit), 0)
}

const CODE_LENGTH = 10

/** What the API calls an instalment plan (decision B1): `SB-` and 10 characters of the alphabet in capitals, at random. */
export const newPlanCode = (): string => {
  const characters = Array.from({ length: CODE_LENGTH }, () => ALPHABET[random16() & 31])
  return `SB-${characters.join("").toUpperCase()}`
}

/** Whether `text` has the shape of an instalment plan's ID. */
export const isPlanCode = (text: string): boolean => /^SB-[0-9A-HJKMNP-TV-Z]{10}$/.test(text)

const SHAPE = /^[a-z]+_[0-9a-hjkmnp-tv-z]{26}$/
/** A delivery that an event brought about is named after that and its endpoint. */
const OF_BOTH = /^dlv_[0-9a-hjkmnp-tv-z]{26}_[0-9a-hjkmnp-tv-z]{26}$/

/** Whether `text` has the shape of an ID of that kind; says nothing of whether the object exists. */
export const isId = (kind: IdKind, text: string): boolean =>
  text.startsWith(`${PREFIXES[kind]}_`) && (SHAPE.test(text) || (kind === "delivery" && OF_BOTH.test(text)))

/** What kind of object an ID of ours would be the ID of. */
export const kindOf = (id: string): IdKind | undefined => Struct.keys(PREFIXES).find((kind) => isId(kind, id))
