/** Encodings of values: integers as numbers (all ours fit 2^53), instants as milliseconds since the epoch, in both directions. */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"

const { OID } = PgTypes
const POSTGRES_EPOCH_MS = Date.UTC(2000, 0, 1)
const WORD = 2 ** 32

/** Uses Node's buffer pool: an array for each value would be most of the memory of a large statement. */
const writeInt64 = (value: number): Uint8Array => {
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeInt32BE(Math.floor(value / WORD), 0)
  bytes.writeUInt32BE(value >>> 0, 4)
  return bytes
}

const readWord = (bytes: Uint8Array, at: number): number =>
  (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!

const readInt64 = (bytes: Uint8Array): number => readWord(bytes, 0) * WORD + (readWord(bytes, 4) >>> 0)

export const types = PgTypes.makeRegistry()

types.register<number | bigint>(
  OID.int8,
  { encode: (value) => Result.succeed(writeInt64(Number(value))), decode: (bytes) => Result.succeed(readInt64(bytes)) },
  { arrayOid: OID.int8Array },
)

/** Microseconds from the year 2285 on exceed the exact integers of a number. */
const writeMicroseconds = (ms: number): Uint8Array => {
  if (Number.isSafeInteger(ms * 1000)) return writeInt64(ms * 1000)
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeBigInt64BE(BigInt(ms) * 1000n)
  return bytes
}

const readMilliseconds = (bytes: Uint8Array): number => {
  const microseconds = readInt64(bytes)
  if (Number.isSafeInteger(microseconds)) return Math.floor(microseconds / 1000)
  return Number((BigInt(readWord(bytes, 0)) * BigInt(WORD) + BigInt(readWord(bytes, 4) >>> 0)) / 1000n)
}

types.register<number | Date>(
  OID.timestamptz,
  {
    encode: (value) => Result.succeed(writeMicroseconds(Number(value) - POSTGRES_EPOCH_MS)),
    // Whole milliseconds: microseconds are dropped, as Date does.
    decode: (bytes) => Result.succeed(readMilliseconds(bytes) + POSTGRES_EPOCH_MS),
  },
  { arrayOid: OID.timestamptzArray },
)
