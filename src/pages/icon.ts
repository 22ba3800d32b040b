/** Reads the icon that browsers request from every site: a circular arrow. */
import { readFileSync } from "node:fs"
import { join } from "node:path"

export const favicon = (): Uint8Array => readFileSync(join(import.meta.dirname, "favicon.ico"))
