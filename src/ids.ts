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

/** 26 characters of a fresh UUIDv7: 48 bits of time, version, 26 bits of sequence, variant, 48 random bits. */
const uuidv7Base32 = (): string => {
  const now = Date.now()
  if (now > lastMs) {
    lastMs = now
    sequence = (randomByte() << 12) | (randomByte() << 4) | (randomByte() >> 4)
  } else if (++sequence > MAX_SEQUENCE) {
    lastMs++
    sequence = 0
  }
  // 130 bits as 26 groups of 5, the first two bits zero: build from 16 bytes.
  const bytes = new Uint8Array(16)
  let ms = lastMs
  for (let i = 5; i >= 0; i--) {
    bytes[i] = ms % 256
    ms = Math.floor(ms / 256)
  }
  bytes[6] = 0x70 | ((sequence >> 22) & 0x0f)
  bytes[7] = (sequence >> 14) & 0xff
  bytes[8] = 0x80 | ((sequence >> 8) & 0x3f)
  bytes[9] = sequence & 0xff
  for (let i = 10; i < 16; i++) bytes[i] = randomByte()
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

/** A fresh ID. Later IDs of one process sort after earlier ones. */
export const newId = (kind: IdKind): string => `${PREFIXES[kind]}_${uuidv7Base32()}`

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
