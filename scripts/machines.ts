/** Writes docs/machines.md: a diagram of each machine, made from the machine itself. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { machinesDocument } from "./machines/document.ts"

writeFileSync(join(import.meta.dirname, "../docs/machines.md"), machinesDocument())
