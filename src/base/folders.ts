/** Creating folders. */
import { existsSync, mkdirSync } from "node:fs"
import { dirname } from "node:path"

/** Creates a folder and its parents. Node's `recursive` loops forever if a parent reports that it does not exist, as /proc does. */
export const makeFolder = (path: string): void => {
  if (existsSync(path)) return
  makeFolder(dirname(path))
  try {
    mkdirSync(path, { mode: 0o755 })
  } catch (error) {
    // Another process created it first.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
  }
}
