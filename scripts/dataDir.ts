/** A DATA_DIR for a run of the demo, the examples, a benchmark or the tests: nothing of it is left afterwards. */
import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface TemporaryDataDir {
  readonly path: string
  readonly remove: () => void
}

export const temporaryDataDir = (of: string): TemporaryDataDir => {
  const path = mkdtempSync(join(tmpdir(), `recurring-billing-${of}-`))
  // Run by root, the server is another account's: where that could not reach it, the cluster would lie, and stay, elsewhere.
  chmodSync(path, 0o755)
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}
