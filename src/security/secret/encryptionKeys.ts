/**
 * The encryption keys of this process: the configured keys, else (development only) one that is created in DATA_DIR. All
 * processes with the same DATA_DIR share it.
 */
import { randomBytes } from "node:crypto"
import { closeSync, fsyncSync, linkSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Redacted } from "effect"
import { makeFolder } from "../../base/folders.ts"
import { type Config, ConfigProblem } from "../../config/Config.ts"
import { parseKeys } from "../../config/encryption.ts"
import { KEY_BYTES } from "./cipher.ts"

const FILE = "encryption-key"

/**
 * Creates a key at `path` if the file does not exist. A complete file on disk is linked to this name only if the name is free:
 * processes that start at the same time use the first key, and none reads an incomplete file.
 */
export const createKey = (path: string): void => {
  const draft = `${path}.${process.pid}.${randomBytes(4).toString("hex")}`
  try {
    const file = openSync(draft, "wx", 0o600)
    writeFileSync(file, `${randomBytes(KEY_BYTES).toString("base64")}\n`)
    fsyncSync(file)
    closeSync(file)
    linkSync(draft, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
  } finally {
    rmSync(draft, { force: true })
  }
}

const read = (path: string): string | undefined => {
  try {
    return readFileSync(path, "utf8")
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error
    return undefined
  }
}

type Settings = Pick<Config, "encryptionKeys" | "dataDir">

const parse = (path: string, written: string) => parseKeys(path, Redacted.make(written))

/** Reads the existing keys, newest first; fails if there is none. */
export const existingKeys = Effect.fnUntraced(function* ({ encryptionKeys: configured, dataDir }: Settings) {
  if (configured !== undefined) return configured
  const path = join(dataDir, FILE)
  const kept = yield* Effect.try({
    try: () => read(path),
    catch: () => new ConfigProblem({ message: `DATA_DIR cannot be read: ${dataDir}.` }),
  })
  if (kept !== undefined) return yield* parse(path, kept)
  return yield* new ConfigProblem({
    message: `There is no key to encrypt with: set ENCRYPTION_KEY, or the DATA_DIR in which the server keeps its key (not in ${dataDir}).`,
  })
})

/** Reads the keys to use, newest first; creates one if there is none. */
export const encryptionKeys = Effect.fnUntraced(function* ({ encryptionKeys: configured, dataDir }: Settings) {
  if (configured !== undefined) return configured
  const path = join(dataDir, FILE)
  const written = yield* Effect.try({
    try: () => {
      const kept = read(path)
      if (kept !== undefined) return kept
      // With DATABASE_URL, nothing else has created the folder.
      makeFolder(dataDir)
      createKey(path)
      return readFileSync(path, "utf8")
    },
    catch: () => new ConfigProblem({ message: `DATA_DIR cannot be written: ${dataDir}.` }),
  })
  return yield* parse(path, written)
})
