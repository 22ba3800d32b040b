/** The text of docs/machines.md. */
import type { AnyStateMachine, AnyStateNode, AnyTransitionDefinition } from "xstate"
import { label, MACHINES, transitionsOf, walk } from "./graph.ts"

interface Emission {
  readonly type: string
}

const name = (node: AnyStateNode): string => node.path.join("_") || "machine"

/** The events that a transition emits, including those on entering its target, for the table beside the diagram. */
const emitted = (transition: AnyTransitionDefinition): string =>
  [...transition.actions, ...(transition.target ?? []).flatMap((target) => target.entry)]
    .map((action) => {
      if (typeof action !== "object" || action.type !== "emit") return undefined
      // The type of an emitted event does not depend on the context, only its content does.
      const { params } = action as { params?: Emission | ((at: object) => Emission) }
      return typeof params === "function" ? params({}).type : params?.type
    })
    .filter((type) => type !== undefined)
    .join(", ")

const diagram = (machine: AnyStateMachine): string => {
  const lines: Array<string> = ["stateDiagram-v2"]
  const declare = (node: AnyStateNode, indent: string): void => {
    const children = Object.values(node.states) as ReadonlyArray<AnyStateNode>
    if (children.length === 0) {
      lines.push(`${indent}state "${node.key}" as ${name(node)}`)
      return
    }
    if (node.parent !== undefined) lines.push(`${indent}state "${node.key}" as ${name(node)} {`)
    const inner = node.parent === undefined ? indent : `${indent}  `
    const [initial] = node.initial?.target ?? []
    if (initial !== undefined) lines.push(`${inner}[*] --> ${name(initial)}`)
    for (const child of children) declare(child, inner)
    if (node.parent !== undefined) lines.push(`${indent}}`)
  }
  declare(machine.root, "  ")
  for (const node of walk(machine.root)) {
    if (node.parent === undefined) continue
    for (const transition of transitionsOf(node)) {
      for (const target of transition.target ?? [])
        lines.push(`  ${name(node)} --> ${name(target)} : ${label(transition)}`)
    }
  }
  return lines.join("\n")
}

const table = (machine: AnyStateMachine): string => {
  const rows = walk(machine.root).flatMap((node) =>
    transitionsOf(node).map((transition) => {
      const target = (transition.target ?? []).map((state) => state.path.join(".")).join(", ")
      return `| ${node.path.join(".") || "any"} | ${label(transition) || "immediately"} | ${target || "unchanged"} | ${emitted(transition)} |`
    }),
  )
  return ["| from | on | to | events |", "| --- | --- | --- | --- |", ...rows].join("\n")
}

export const machinesDocument = (): string =>
  [
    "# The machines",
    "",
    "Made from `machines/` by `npm run machines`; a test fails when it is out of date. `after x` is a timer, `[x]` a guard.",
    "",
    ...MACHINES.flatMap(({ title, file, machine }) => [
      `## ${title}`,
      "",
      `\`${file}\``,
      "",
      "```mermaid",
      diagram(machine),
      "```",
      "",
      table(machine),
      "",
    ]),
  ].join("\n")
