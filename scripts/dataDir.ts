/** A temporary DATA_DIR for the demo, the examples, a benchmark or the tests. */
import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface TemporaryDataDir {
  readonly path: string
  readonly remove: () => void
}

export const temporaryDataDir = (of: string): TemporaryDataDir => {
  const path = mkdtempSync(join(tmpdir(), `recurring-billing-${of}-`))
  // If root runs this, the server runs as another account: if that could not reach the folder, the cluster would be left elsewhere.
  chmodSync(path, 0o755)
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}
