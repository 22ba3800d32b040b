/** Lays the machines out for their pictures (src/pages/pictures/draw.ts). */

import type { ElkExtendedEdge, ElkNode } from "elkjs"
import * as elkjs from "elkjs"
import type { AnyStateMachine, AnyStateNode } from "xstate"
import type { Arrow, Picture, State } from "../../src/pages/pictures/draw.ts"
import { MACHINES, transitionsOf, triggerIn, walk } from "./graph.ts"

/** Pixels of a character and of a line, of the text in a picture. */
const CHARACTER = 6.6
const LINE = 15
const MAX_LINES = 6

const idOf = (node: AnyStateNode): string => node.path.join(".")

const nodeOf = (node: AnyStateNode): ElkNode => {
  const children = Object.values(node.states) as ReadonlyArray<AnyStateNode>
  return children.length === 0
    ? { id: idOf(node), width: Math.max(70, node.key.length * CHARACTER + 24), height: 34 }
    : {
        id: idOf(node),
        children: children.map(nodeOf),
        layoutOptions: { "elk.padding": "[top=34,left=14,bottom=14,right=14]" },
      }
}

/** One arrow for all transitions between two states, with what triggers them. */
const arrowsOf = (machine: AnyStateMachine) => {
  const arrows = new Map<string, { from: string; to: string; triggers: Set<string> }>()
  for (const node of walk(machine.root)) {
    if (node.parent === undefined) continue
    for (const transition of transitionsOf(node))
      for (const target of transition.target ?? []) {
        const [from, to] = [idOf(node), idOf(target)]
        const arrow = arrows.get(`${from} ${to}`) ?? { from, to, triggers: new Set() }
        arrow.triggers.add(triggerIn(transition))
        arrows.set(`${from} ${to}`, arrow)
      }
  }
  return [...arrows.values()].map(({ from, to, triggers }) => ({ from, to, triggers: [...triggers] }))
}

/** The lines of an arrow's label. */
const linesOf = (triggers: ReadonlyArray<string>): ReadonlyArray<string> =>
  triggers.length <= MAX_LINES
    ? triggers
    : [...triggers.slice(0, MAX_LINES - 1), `and ${triggers.length - MAX_LINES + 1} more`]

const rounded = (value: number | undefined): number => Math.round(value ?? 0)

const statesOf = (node: ElkNode, x: number, y: number): ReadonlyArray<State> =>
  (node.children ?? []).flatMap((child): ReadonlyArray<State> => {
    const [left, top] = [x + (child.x ?? 0), y + (child.y ?? 0)]
    const state = {
      name: child.id,
      x: rounded(left),
      y: rounded(top),
      width: rounded(child.width),
      height: rounded(child.height),
      isGroup: child.children !== undefined,
    }
    return [state, ...statesOf(child, left, top)]
  })

// The types of the package do not know how Node imports it.
const Elk = elkjs.default as unknown as typeof elkjs.default.default
const elk = new Elk()

export const layOut = async (machine: AnyStateMachine): Promise<Picture> => {
  const arrows = arrowsOf(machine)
  const graph: ElkNode = {
    id: "machine",
    children: (Object.values(machine.root.states) as ReadonlyArray<AnyStateNode>).map(nodeOf),
    edges: arrows.map(({ from, to, triggers }, index): ElkExtendedEdge => {
      const lines = linesOf(triggers)
      const width = Math.max(...lines.map((line) => line.length)) * CHARACTER + 6
      return {
        id: String(index),
        sources: [from],
        targets: [to],
        labels: [{ id: `label ${index}`, text: lines.join("\n"), width, height: lines.length * LINE }],
      }
    }),
    layoutOptions: {
      "elk.algorithm": "layered",
      "elk.direction": "DOWN",
      "elk.hierarchyHandling": "INCLUDE_CHILDREN",
      "elk.edgeRouting": "ORTHOGONAL",
      "elk.json.edgeCoords": "ROOT",
      "elk.layered.spacing.nodeNodeBetweenLayers": "30",
      "elk.spacing.nodeNode": "24",
      "elk.spacing.edgeLabel": "4",
      "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
    },
  }
  const laidOut = await elk.layout(graph)
  const edges = new Map(laidOut.edges!.map((edge) => [edge.id, edge]))
  return {
    width: rounded(laidOut.width),
    height: rounded(laidOut.height),
    states: statesOf(laidOut, 0, 0),
    arrows: arrows.map(({ from, to, triggers }, index): Arrow => {
      const { sections = [], labels = [] } = edges.get(String(index))!
      const [section] = sections
      const [label] = labels
      const points = [section!.startPoint, ...(section!.bendPoints ?? []), section!.endPoint]
      return {
        from,
        to,
        triggers,
        points: points.map(({ x, y }) => [rounded(x), rounded(y)]),
        label: { x: rounded(label!.x), y: rounded(label!.y), lines: linesOf(triggers) },
      }
    }),
  }
}

/** The pictures of all machines, by kind, as the file keeps them: a picture a line. */
export const picturesFile = async (): Promise<string> => {
  const lines: Array<string> = []
  for (const { kind, machine } of MACHINES)
    lines.push(`  ${JSON.stringify(kind)}: ${JSON.stringify(await layOut(machine))}`)
  return `{\n${lines.join(",\n")}\n}\n`
}
