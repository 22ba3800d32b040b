/** Writes docs/machines.md and the layouts of the machines' pictures, both made from the machines themselves. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { machinesDocument } from "./machines/document.ts"
import { picturesFile } from "./machines/pictures.ts"

const ROOT = join(import.meta.dirname, "..")
writeFileSync(join(ROOT, "docs/machines.md"), machinesDocument())
writeFileSync(join(ROOT, "src/pages/pictures/layouts.json"), await picturesFile())
