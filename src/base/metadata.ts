/** Metadata that callers store on their objects (decision B6). */
import { Effect } from "effect"
import { jsonBytes } from "./json.ts"
import { invalid, type Problem } from "./problem.ts"

export type Metadata = Readonly<Record<string, string>>

export const MAX_METADATA_KEYS = 20
/** Fits all keys and values at full length in any script; fewer fit if JSON escapes their characters with six bytes (control characters). */
export const MAX_METADATA_BYTES = 44 * 1024

/** Keys merge one by one; `""` removes one, null clears all. The limits hold for the result. */
export const mergeMetadata = (
  before: Metadata,
  patch: Metadata | null | undefined,
): Effect.Effect<Metadata, Problem> => {
  if (patch === undefined) return Effect.succeed(before)
  const merged = Object.fromEntries(
    Object.entries(patch === null ? {} : { ...before, ...patch }).filter(([, value]) => value !== ""),
  )
  const refuse = (limit: string, has: string) =>
    Effect.fail(
      invalid("metadata", `metadata can have at most ${limit}; merged with the existing metadata it has ${has}.`),
    )
  const keys = Object.keys(merged).length
  if (keys > MAX_METADATA_KEYS) return refuse(`${MAX_METADATA_KEYS} keys`, `${keys}`)
  const bytes = jsonBytes(merged)
  return bytes > MAX_METADATA_BYTES
    ? refuse(`44 KiB (${MAX_METADATA_BYTES} bytes) as JSON in UTF-8`, `${bytes}`)
    : Effect.succeed(merged)
}
