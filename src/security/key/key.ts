/**
 * The format of keys: a prefix such as `sk_test_` or `adm_`, 32 base62 characters that start with the two of the cell that made
 * the key, and 6 characters of checksum (decisions J1, J3, O2).
 */
import { hash, randomBytes } from "node:crypto"
import { crc32 } from "node:zlib"
import { Redacted } from "effect"
import { DEFAULT_CELL } from "../../base/cell.ts"

export const KEY_TYPES = ["secret", "publishable", "restricted"] as const
export type KeyType = (typeof KEY_TYPES)[number]

const TYPE_PREFIX = { secret: "sk", publishable: "pk", restricted: "rk" } as const
const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const BODY_LENGTH = 32
const CHECKSUM_LENGTH = 6
const SHAPE = /^(?:(sk|pk|rk)_(test|live)|adm)_[0-9A-Za-z]{32}([0-9A-Za-z]{6})$/
const ADMINISTRATOR_PREFIX = "adm_"

const checksum = (text: string): string => {
  let rest = crc32(text) >>> 0
  let out = ""
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    out = BASE62[rest % 62] + out
    rest = Math.floor(rest / 62)
  }
  return out
}

/** Returns the cell and 30 random characters. All 62 are equally likely: bytes from 248 on are drawn again. */
const body = (cell: string): string => {
  let out = cell
  while (out.length < BODY_LENGTH) {
    for (const byte of randomBytes(BODY_LENGTH)) if (byte < 248 && out.length < BODY_LENGTH) out += BASE62[byte % 62]
  }
  return out
}

export const hashKey = (key: string): Uint8Array => hash("sha256", key, "buffer")

/** Generates a key that starts with `prefix`. Only its hash, its prefix and its last four characters are stored. */
const generate = (prefix: string, cell: string) => {
  const start = prefix + body(cell)
  const key = start + checksum(start)
  return { key: Redacted.make(key), hash: hashKey(key), prefix, last4: key.slice(-4) }
}

export const generateKey = (type: KeyType, livemode: boolean, cell = DEFAULT_CELL) =>
  generate(`${TYPE_PREFIX[type]}_${livemode ? "live" : "test"}_`, cell)

export const generateAdministratorKey = (cell: string) => generate(ADMINISTRATOR_PREFIX, cell)

export interface ParsedKey {
  /** The owner: an account, or one of the service's own administrators. */
  readonly kind: "account" | "administrator"
  readonly hash: Uint8Array
}

/** Parses a key; undefined if its form or checksum is wrong, so that it needs no look-up. */
export const parseKey = (key: string): ParsedKey | undefined => {
  const match = SHAPE.exec(key)
  if (match === null || checksum(key.slice(0, -CHECKSUM_LENGTH)) !== match[3]) return undefined
  return { kind: match[1] === undefined ? "administrator" : "account", hash: hashKey(key) }
}
