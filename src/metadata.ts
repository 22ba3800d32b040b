/** What callers note on their objects (decision B6). */
import { Effect } from "effect"
import { invalid, type Problem } from "./problem.ts"

export type Metadata = Readonly<Record<string, string>>

export const MAX_METADATA_KEYS = 20

/** Keys merge one by one; `""` removes one, null clears all. The limit holds for the result. */
export const mergeMetadata = (
  before: Metadata,
  patch: Metadata | null | undefined,
): Effect.Effect<Metadata, Problem> => {
  if (patch === undefined) return Effect.succeed(before)
  const merged = Object.fromEntries(
    Object.entries(patch === null ? {} : { ...before, ...patch }).filter(([, value]) => value !== ""),
  )
  const keys = Object.keys(merged).length
  return keys <= MAX_METADATA_KEYS
    ? Effect.succeed(merged)
    : Effect.fail(
        invalid(
          "metadata",
          `metadata may hold at most ${MAX_METADATA_KEYS} keys; merged with what is there it has ${keys}.`,
        ),
      )
}
