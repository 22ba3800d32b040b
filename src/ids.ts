/** Identifiers: `prefix_` + a UUIDv7 in 26 lower-case Crockford base32 characters (decision B1). */
import { randomFillSync } from "node:crypto"

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
const RANDOM_POOL_BYTES = 8192

const pool = new Uint8Array(RANDOM_POOL_BYTES)
let poolAt = RANDOM_POOL_BYTES
let lastMs = 0
/** Within a millisecond IDs count up, so that a batch keeps its order (RFC 9562, method 1). */
let sequence = 0

const randomByte = (): number => {
  if (poolAt >= RANDOM_POOL_BYTES) {
    randomFillSync(pool)
    poolAt = 0
  }
  return pool[poolAt++]!
}

const MAX_SEQUENCE = 0x3ffffff
/** Those of the time, which is 48 bits behind two zeros. */
const TIME_CHARACTERS = 10

/** The next place in the order of IDs: a millisecond, and a number within it. */
const nextPlace = (): void => {
  const now = Date.now()
  if (now > lastMs) {
    lastMs = now
    sequence = (randomByte() << 12) | (randomByte() << 4) | (randomByte() >> 4)
  } else if (++sequence > MAX_SEQUENCE) {
    lastMs++
    sequence = 0
  }
}

/** 26 characters of a UUIDv7: 48 bits of time, version, 26 bits of sequence, variant, 48 random bits, `order` in their first 32. */
const uuidv7Base32 = (time: number, sequence: number, order?: number): string => {
  // 130 bits as 26 groups of 5, the first two bits zero: build from 16 bytes.
  const bytes = new Uint8Array(16)
  let ms = time
  for (let i = 5; i >= 0; i--) {
    bytes[i] = ms % 256
    ms = Math.floor(ms / 256)
  }
  bytes[6] = 0x70 | ((sequence >> 22) & 0x0f)
  bytes[7] = (sequence >> 14) & 0xff
  bytes[8] = 0x80 | ((sequence >> 8) & 0x3f)
  bytes[9] = sequence & 0xff
  for (let i = 10; i < 16; i++) bytes[i] = randomByte()
  if (order !== undefined) for (let i = 0; i < 4; i++) bytes[10 + i] = Math.floor(order / 2 ** (24 - 8 * i)) & 0xff
  let out = ""
  let buffer = 0
  let bits = 2
  for (const byte of bytes) {
    buffer = (buffer << 8) | byte
    bits += 8
    while (bits >= 5) {
      bits -= 5
      out += ALPHABET[(buffer >> bits) & 31]
      buffer &= (1 << bits) - 1
    }
  }
  return out
}

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
  const openedAt = Math.max(Date.now(), lastMs + 1, (before ?? 0) + 3)
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
  const since = (Date.now() - window.openedAt) * ORDERS_A_MS
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
export const idBefore = (kind: IdKind, at: number): string =>
  `${PREFIXES[kind]}_${uuidv7Base32(at, 0).slice(0, TIME_CHARACTERS)}`

const CODE_LENGTH = 10

/** What the API calls an instalment plan (decision B1): `SB-` and 10 characters of the alphabet in capitals, at random. */
export const newPlanCode = (): string => {
  const characters = Array.from({ length: CODE_LENGTH }, () => ALPHABET[randomByte() & 31])
  return `SB-${characters.join("").toUpperCase()}`
}

/** Whether `text` has the shape of an instalment plan's ID. */
export const isPlanCode = (text: string): boolean => /^SB-[0-9A-HJKMNP-TV-Z]{10}$/.test(text)

const SHAPE = /^[a-z]+_[0-9a-hjkmnp-tv-z]{26}$/

/** Whether `text` has the shape of an ID of that kind; says nothing of whether the object exists. */
export const isId = (kind: IdKind, text: string): boolean => text.startsWith(`${PREFIXES[kind]}_`) && SHAPE.test(text)

/** What kind of object an ID of ours would be the ID of. */
export const kindOf = (id: string): IdKind | undefined =>
  // Object.keys forgets which names a constant has.
  (Object.keys(PREFIXES) as ReadonlyArray<IdKind>).find((kind) => isId(kind, id))
