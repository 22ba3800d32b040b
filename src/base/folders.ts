/** Folders of ours. */
import { existsSync, mkdirSync } from "node:fs"
import { dirname } from "node:path"

/** Makes a folder, and those above it. Node's `recursive` never ends where a parent answers that it is not there itself, as /proc does. */
export const makeFolder = (path: string): void => {
  if (existsSync(path)) return
  makeFolder(dirname(path))
  try {
    mkdirSync(path, { mode: 0o755 })
  } catch (error) {
    // Another process was faster.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
  }
}
