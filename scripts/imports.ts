/**
 * Checks which part of the program imports which (CONTRIBUTING.md): machines import only xstate and each other; in src/ a part imports
 * itself and the parts below it; no files and no parts import each other in a circle. No exceptions. Prints violations; exit code 1.
 */
import { readdirSync, readFileSync, statSync } from "node:fs"
import { dirname, join, relative, resolve } from "node:path"

const ROOT = resolve(import.meta.dirname, "..")
const SRC = join(ROOT, "src")
const MACHINES = join(ROOT, "machines")

/**
 * The parts of src/, lowest first: a folder, a folder or file in a folder, or a file at the top. Parts in one line do not import each other.
 */
const LAYERS: ReadonlyArray<ReadonlyArray<string>> = [
  ["base"],
  ["concurrency", "config"],
  ["postgres", "rails/rail", "outbound/messenger"],
  ["db", "pages"],
  ["process"],
  ["security/secret"],
  ["security/key", "security/role"],
  ["http"],
  ["outbound/event", "ledger", "process/deletion"],
  ["runtime"],
  ["merchants/account", "billing/plan", "billing/payment_method", "billing/clock"],
  ["merchants/activity", "merchants/member", "merchants/request"],
  ["merchants/provider", "merchants/usage", "outbound/webhook", "rails/credential"],
  ["merchants/invoice", "billing/customer", "rails/rail_callback"],
  ["billing/charge", "outbound/nudge", "rails/rail_call"],
  ["billing/refund"],
  ["billing/payments"],
  ["billing/subscription"],
  ["buying/payment_page"],
  ["buying/checkout", "buying/instalment", "buying/payment_link"],
  ["rails/recovery", "app/objects.ts"],
  ["sandbox"],
  ["pages/dashboard"],
  ["dashboard"],
  ["app"],
  ["cells"],
  ["cli"],
  ["main.ts", "cli.ts"],
]

const PARTS = LAYERS.flat()

const filesIn = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    return statSync(path).isDirectory() ? filesIn(path) : path.endsWith(".ts") ? [path] : []
  })

/** The imports of a file, as written; types count too. */
const importsOf = (file: string): ReadonlyArray<string> => {
  const text = readFileSync(file, "utf8")
  const statements = [...text.matchAll(/^(?:import|export)\b[^;]*?\bfrom "([^"]+)"/gms)]
  const calls = [...text.matchAll(/\bimport\("([^"]+)"\)/g)]
  return [...statements, ...calls].map(([, from]) => from!)
}

const nameOf = (path: string): string => relative(ROOT, path)
/** The part of src/ that a file belongs to; its path if it belongs to none. */
const partOf = (path: string): string => {
  const [first = "", second = ""] = relative(SRC, path).split("/")
  return [`${first}/${second}`, first].find((part) => PARTS.includes(part)) ?? relative(SRC, path)
}
const layerOf = (part: string): number => LAYERS.findIndex((layer) => layer.includes(part))

type Graph = ReadonlyMap<string, ReadonlySet<string>>

/** Finds a circle in a graph, from a node back to itself; undefined if there is none. */
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
  if (!isMachine && layerOf(partOf(file)) === -1) faults.push(`${nameOf(file)} is in no layer of scripts/imports.ts.`)
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

for (const [kind, graph] of [
  ["Files", fileGraph],
  ["Parts", partGraph],
] as const) {
  const circle = circleIn(graph)
  if (circle !== undefined) faults.push(`${kind} import each other in a circle: ${circle.join(" → ")}.`)
}

for (const fault of faults) process.stderr.write(`${fault}\n`)
process.exit(faults.length === 0 ? 0 : 1)
