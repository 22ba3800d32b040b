/** Reads the keys that encrypt secrets at rest. */
import { Effect, Redacted } from "effect"
import { ConfigProblem, type EncryptionKey } from "./Config.ts"
import { secret } from "./settings.ts"

/** 32 bytes in base64. */
const KEY = /^[A-Za-z0-9+/]{43}=$/
/** A rotation needs two; more than a few mean that old keys were never removed. */
const MAX_KEYS = 8

/** Parses the keys of a setting or a file: newest first, separated by commas. `from`: its name in a refusal. */
export const parseKeys = (
  from: string,
  written: Redacted.Redacted<string>,
): Effect.Effect<ReadonlyArray<EncryptionKey>, ConfigProblem> => {
  const keys = Redacted.value(written)
    .split(",")
    .map((key) => key.trim())
  return keys.length <= MAX_KEYS && keys.every((key) => KEY.test(key))
    ? Effect.succeed(keys.map((key) => Redacted.make(Buffer.from(key, "base64"))))
    : Effect.fail(
        new ConfigProblem({
          message: `${from} must be 32 bytes in base64, or up to ${MAX_KEYS} such keys, newest first, separated by commas.`,
        }),
      )
}

/** Reads the configured keys; undefined if none is set. Fails if none is set but one is `needed`. */
export const readEncryptionKeys = Effect.fnUntraced(function* (
  needed: boolean,
): Effect.fn.Return<ReadonlyArray<EncryptionKey> | undefined, ConfigProblem> {
  const written = yield* secret("ENCRYPTION_KEY")
  if (written !== undefined) return yield* parseKeys("ENCRYPTION_KEY", written)
  if (needed) {
    return yield* new ConfigProblem({
      message: "ENCRYPTION_KEY is needed when NODE_ENV=production: 32 bytes in base64 (openssl rand -base64 32).",
    })
  }
  return undefined
})
