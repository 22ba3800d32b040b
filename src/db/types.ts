/** How values travel: integers as numbers (all ours fit 2^53), instants as milliseconds since the epoch, both ways. */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"

const { OID } = PgTypes
const POSTGRES_EPOCH_MS = Date.UTC(2000, 0, 1)
const WORD = 2 ** 32

const writeInt64 = (value: number): Uint8Array => {
  const bytes = new Uint8Array(8)
  const view = new DataView(bytes.buffer)
  view.setInt32(0, Math.floor(value / WORD))
  view.setUint32(4, value >>> 0)
  return bytes
}

const readInt64 = (bytes: Uint8Array): number => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, 8)
  return view.getInt32(0) * WORD + view.getUint32(4)
}

export const types = PgTypes.makeRegistry()

types.register<number | bigint>(
  OID.int8,
  { encode: (value) => Result.succeed(writeInt64(Number(value))), decode: (bytes) => Result.succeed(readInt64(bytes)) },
  { arrayOid: OID.int8Array },
)

types.register<number | Date>(
  OID.timestamptz,
  {
    encode: (value) => Result.succeed(writeInt64((Number(value) - POSTGRES_EPOCH_MS) * 1000)),
    // Whole milliseconds: microseconds are dropped, as Date does.
    decode: (bytes) => Result.succeed(Math.floor(readInt64(bytes) / 1000) + POSTGRES_EPOCH_MS),
  },
  { arrayOid: OID.timestamptzArray },
)
