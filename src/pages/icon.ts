/** The icon that browsers ask for at every site: an arrow that comes round. */
import { readFileSync } from "node:fs"
import { join } from "node:path"

export const favicon = (): Uint8Array => readFileSync(join(import.meta.dirname, "favicon.ico"))
