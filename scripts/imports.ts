/** Which part of the program may import which (CONTRIBUTING.md): prints what breaks the rules, exit code 1. */
import { readdirSync, readFileSync, statSync } from "node:fs"
import { basename, dirname, join, relative, resolve } from "node:path"

const ROOT = resolve(import.meta.dirname, "..")

/**
 * Layers of src/, lowest first: a folder or file may import its own layer's folder and anything lower. Nouns of one
 * layer do not see each other.
 */
const LAYERS: ReadonlyArray<ReadonlyArray<string>> = [
  ["money.ts", "time.ts", "ids.ts", "canonical.ts", "problem.ts", "config.ts"],
  ["metadata.ts", "db", "rail", "messenger"],
  ["event", "ledger", "timers", "key"],
  ["lifecycle"],
  ["http"],
  ["account", "plan", "payment_method", "sandbox", "clock"],
  ["provider", "usage", "webhook"],
  ["invoice"],
  ["customer"],
  ["charge", "nudge"],
  ["subscription"],
  ["services.ts", "api.ts", "lifecycles.ts", "observability.ts"],
  ["main.ts", "cli.ts"],
]

/** Imports that the layers alone would refuse, each with its reason. */
const ALLOWED: ReadonlyArray<readonly [string, string]> = [
  // A sweep reads what an actor's row looks like; the rows themselves are handed in.
  ["timers/sweep.ts", "lifecycle/advance.ts"],
  // The schemas of the answers reuse the rules that plans are made of.
  ["http/objects.ts", "plan/api.ts"],
  // Handlers may make signed links; the service that does is handed in.
  ["http/Endpoint.ts", "invoice/Links.ts"],
  // And payment links; likewise.
  ["http/Endpoint.ts", "nudge/Nudging.ts"],
  // And call out; likewise.
  ["http/Endpoint.ts", "webhook/Sender.ts"],
]

const files = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    return statSync(path).isDirectory() ? files(path) : path.endsWith(".ts") ? [path] : []
  })

const imports = (file: string): ReadonlyArray<string> =>
  [...readFileSync(file, "utf8").matchAll(/^(?:import|export)[^;]*?from "([^"]+)"/gms)].map(([, from]) => from!)

const part = (path: string): string => relative(join(ROOT, "src"), path).split("/")[0]!
const layerOf = (name: string): number => LAYERS.findIndex((layer) => layer.includes(name))

const faults: Array<string> = []

for (const file of files(join(ROOT, "machines"))) {
  for (const from of imports(file)) {
    const pure = from === "xstate" || (from.startsWith("./") && !from.includes(".."))
    if (!pure) faults.push(`${relative(ROOT, file)} imports ${from}: machines import xstate and each other only.`)
  }
}

for (const file of files(join(ROOT, "src"))) {
  const own = part(file)
  if (layerOf(own) === -1) faults.push(`${relative(ROOT, file)}: ${own} is in no layer of scripts/imports.ts.`)
  for (const from of imports(file)) {
    if (!from.startsWith(".")) continue
    const target = resolve(dirname(file), from)
    if (!target.startsWith(join(ROOT, "src"))) continue
    const other = part(target)
    if (other === own) continue
    const [mine, theirs] = [relative(join(ROOT, "src"), file), relative(join(ROOT, "src"), target)]
    if (ALLOWED.some(([a, b]) => a === mine && b === theirs)) continue
    // A noun's wire side is made of the HTTP kit, whatever layer its rows and verbs are in.
    if (other === "http" && ["api.ts", "http.ts"].includes(basename(file))) continue
    if (layerOf(other) >= layerOf(own)) faults.push(`src/${mine} imports src/${theirs}, which is not below it.`)
  }
}

for (const fault of faults) process.stderr.write(`${fault}\n`)
process.exit(faults.length === 0 ? 0 : 1)
