/**
 * Which part of the program may import which (CONTRIBUTING.md): machines import xstate and each other only; in src/ a part
 * imports itself and what is below it; no files and no parts import each other in a circle. No exceptions. Prints what
 * breaks the rules, exit code 1.
 */
import { readdirSync, readFileSync, statSync } from "node:fs"
import { dirname, join, relative, resolve } from "node:path"

const ROOT = resolve(import.meta.dirname, "..")
const SRC = join(ROOT, "src")
const MACHINES = join(ROOT, "machines")

/** The parts of src/ (folders, or files at its top), lowest first. Parts of one line do not see each other. */
const LAYERS: ReadonlyArray<ReadonlyArray<string>> = [
  [
    "time.ts",
    "folders.ts",
    "json.ts",
    "money.ts",
    "sameSecret.ts",
    "turns.ts",
    "Together.ts",
    "Counts.ts",
    "apiPlans.ts",
    "ip.ts",
    "cell.ts",
    "webAddress.ts",
    "text.ts",
    "phone.ts",
    "connector.ts",
  ],
  ["retryAfter.ts", "wallClock.ts"],
  ["ids.ts", "problem.ts", "config"],
  ["metadata.ts", "db", "rail", "messenger"],
  ["process", "pages"],
  ["secret"],
  ["key"],
  ["http"],
  ["event", "ledger", "deletion"],
  ["runtime"],
  ["account", "plan", "payment_method", "clock"],
  ["provider", "usage", "webhook", "credential"],
  ["invoice", "customer", "rail_callback"],
  ["charge", "nudge", "rail_call"],
  ["refund"],
  ["collecting"],
  ["subscription"],
  ["paying"],
  ["checkout", "instalment", "payment_link"],
  ["recovery"],
  ["objects.ts", "pageUrls.ts"],
  ["sandbox"],
  ["services.ts", "api.ts", "lifecycles.ts", "observability.ts"],
  ["cells"],
  ["cli"],
  ["main.ts", "cli.ts"],
]

const filesIn = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    return statSync(path).isDirectory() ? filesIn(path) : path.endsWith(".ts") ? [path] : []
  })

/** What a file imports, as it is written there; types count too. */
const importsOf = (file: string): ReadonlyArray<string> => {
  const text = readFileSync(file, "utf8")
  const statements = [...text.matchAll(/^(?:import|export)\b[^;]*?\bfrom "([^"]+)"/gms)]
  const calls = [...text.matchAll(/\bimport\("([^"]+)"\)/g)]
  return [...statements, ...calls].map(([, from]) => from!)
}

const nameOf = (path: string): string => relative(ROOT, path)
/** The part of src/ that a file belongs to. */
const partOf = (path: string): string => relative(SRC, path).split("/")[0]!
const layerOf = (part: string): number => LAYERS.findIndex((layer) => layer.includes(part))

type Graph = ReadonlyMap<string, ReadonlySet<string>>

/** A circle in a graph, from a node back to itself; undefined where there is none. */
const circleIn = (graph: Graph): ReadonlyArray<string> | undefined => {
  const done = new Set<string>()
  const walk = (node: string, path: ReadonlyArray<string>): ReadonlyArray<string> | undefined => {
    if (path.includes(node)) return [...path.slice(path.indexOf(node)), node]
    if (done.has(node)) return undefined
    for (const next of graph.get(node) ?? []) {
      const found = walk(next, [...path, node])
      if (found !== undefined) return found
    }
    done.add(node)
    return undefined
  }
  for (const node of graph.keys()) {
    const found = walk(node, [])
    if (found !== undefined) return found
  }
  return undefined
}

const files = [...filesIn(MACHINES), ...filesIn(SRC)]
const faults: Array<string> = []
const fileGraph = new Map<string, Set<string>>()
const partGraph = new Map<string, Set<string>>()

for (const file of files) {
  const isMachine = file.startsWith(MACHINES)
  if (!isMachine && layerOf(partOf(file)) === -1)
    faults.push(`${nameOf(file)}: ${partOf(file)} is in no layer of scripts/imports.ts.`)
  const imported = new Set<string>()
  fileGraph.set(nameOf(file), imported)
  for (const from of importsOf(file)) {
    if (isMachine && from !== "xstate" && !/^\.\/[^/]+$/.test(from))
      faults.push(`${nameOf(file)} imports ${from}: machines import xstate and each other only.`)
    if (!from.startsWith(".")) continue
    const target = resolve(dirname(file), from)
    imported.add(nameOf(target))
    if (!target.startsWith(SRC) || partOf(target) === partOf(file)) continue
    partGraph.set(partOf(file), (partGraph.get(partOf(file)) ?? new Set()).add(partOf(target)))
    if (layerOf(partOf(target)) >= layerOf(partOf(file)))
      faults.push(`${nameOf(file)} imports ${nameOf(target)}, which is not below it.`)
  }
}

for (const [what, graph] of [
  ["Files", fileGraph],
  ["Parts", partGraph],
] as const) {
  const circle = circleIn(graph)
  if (circle !== undefined) faults.push(`${what} import each other in a circle: ${circle.join(" → ")}.`)
}

for (const fault of faults) process.stderr.write(`${fault}\n`)
process.exit(faults.length === 0 ? 0 : 1)
