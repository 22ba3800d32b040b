/** Draws a machine as SVG: its states and arrows, laid out beforehand (`npm run machines`), with the path of one actor. Pure. */
import layouts from "./layouts.json" with { type: "json" }

/** A state; its name is the one in docs/machines.md, such as `active.current`. Positions are in pixels. */
export interface State {
  readonly name: string
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
  readonly isGroup: boolean
}

/** All transitions from one state to another. */
export interface Arrow {
  readonly from: string
  readonly to: string
  /** The events that trigger them; `after x`: the timer x. */
  readonly triggers: ReadonlyArray<string>
  readonly points: ReadonlyArray<readonly [number, number]>
  readonly label: { readonly x: number; readonly y: number; readonly lines: ReadonlyArray<string> }
}

export interface Picture {
  readonly width: number
  readonly height: number
  readonly states: ReadonlyArray<State>
  readonly arrows: ReadonlyArray<Arrow>
}

/** A transition that an actor made. */
export interface Step {
  readonly from: string
  readonly to: string
  /** As in an arrow's triggers. */
  readonly trigger: string
}

const PICTURES = layouts as unknown as Readonly<Record<string, Picture>>

/** The picture of the machine of this kind of actor; undefined if there is none. */
export const pictureOf = (kind: string): Picture | undefined => PICTURES[kind]

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;")

/** Whether a state is this one or a part of it. */
const isIn = (state: string, name: string): boolean => state === name || state.startsWith(`${name}.`)

/** Whether a step may have taken an arrow: it begins there, with this trigger. A step may pass through states that decide. */
const matches = ({ from, triggers }: Arrow, step: Step): boolean =>
  isIn(step.from, from) && triggers.includes(step.trigger)

/** The arrows that a path took. */
const takenBy = (arrows: ReadonlyArray<Arrow>, path: ReadonlyArray<Step>): ReadonlySet<Arrow> =>
  new Set(
    path.flatMap((step) => {
      const possible = arrows.filter((arrow) => matches(arrow, step))
      const exact = possible.filter(({ to }) => isIn(step.to, to))
      return exact.length > 0 ? exact : possible
    }),
  )

const STYLE = `
  .machine { --ink: #1c2733; --faint: #8795a5; --paper: #ffffff; --path: #0b6e4f; --here: #ffd166; font: 12px ui-sans-serif, system-ui, sans-serif; }
  @media (prefers-color-scheme: dark) { .machine { --ink: #e6edf3; --faint: #77869a; --paper: #12181f; --path: #4cc38a; --here: #8a6d1a; } }
  .machine rect { fill: var(--paper); stroke: var(--faint); }
  .machine text { fill: var(--ink); }
  .machine .arrow path { fill: none; stroke: var(--faint); }
  .machine .arrow text { fill: var(--faint); font-size: 11px; }
  .machine .arrow.taken path { stroke: var(--path); stroke-width: 2.5; }
  .machine .arrow.taken text { fill: var(--path); font-weight: 600; }
  .machine .visited rect { stroke: var(--path); stroke-width: 2; }
  .machine [aria-current] rect { fill: var(--here); }
`

const drawState = (
  { name, x, y, width, height, isGroup }: State,
  visited: ReadonlySet<string>,
  current: string | null,
) => {
  const label = name.split(".").at(-1)!
  const isCurrent = name === current
  const wasThere = [...visited].some((one) => isIn(one, name))
  const place = isGroup
    ? `x="${x + 10}" y="${y + 20}"`
    : `x="${x + width / 2}" y="${y + height / 2 + 4}" text-anchor="middle"`
  return `<g data-state="${escaped(name)}"${isCurrent ? ' aria-current="true"' : ""}${wasThere ? ' class="visited"' : ""}><rect x="${x}" y="${y}" width="${width}" height="${height}" rx="${isGroup ? 12 : 8}"/><text ${place}>${escaped(label)}</text></g>`
}

const drawArrow = ({ from, to, points, label }: Arrow, head: string, isTaken: boolean): string => {
  const [[x, y], ...rest] = points as [readonly [number, number], ...Array<readonly [number, number]>]
  const path = `M${x} ${y}${rest.map(([left, top]) => `L${left} ${top}`).join("")}`
  const lines = label.lines
    .map((line, index) => `<tspan x="${label.x + 3}" y="${label.y + 11 + index * 15}">${escaped(line)}</tspan>`)
    .join("")
  return `<g class="arrow${isTaken ? " taken" : ""}" data-from="${escaped(from)}" data-to="${escaped(to)}"><path d="${path}" marker-end="url(#${head})"/><text>${lines}</text></g>`
}

const marker = (id: string, color: string): string =>
  `<marker id="${id}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" style="fill:var(${color});stroke:none"/></marker>`

/** What a picture shows besides the machine: its title for people who cannot see it, the path of an actor and its state now. */
export interface Shown {
  readonly title: string
  readonly path?: ReadonlyArray<Step>
  readonly current?: string
}

/** Draws a picture. A path is in a strong colour, the state now is filled. */
export const draw = ({ width, height, states, arrows }: Picture, { title, path = [], current }: Shown): string => {
  const taken = takenBy(arrows, path)
  // Several pictures may stand on one page.
  const name = title.replaceAll(/[^A-Za-z0-9]+/g, "-")
  const [head, takenHead] = [`head-${name}`, `taken-head-${name}`]
  const visited = new Set(path.flatMap(({ from, to }) => [from, to]))
  const plain = arrows.filter((arrow) => !taken.has(arrow))
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" class="machine" viewBox="-8 -8 ${width + 16} ${height + 16}" width="${width + 16}" height="${height + 16}" role="img" aria-label="${escaped(title)}">`,
    `<style>${STYLE}</style>`,
    `<defs>${marker(head, "--faint")}${marker(takenHead, "--path")}</defs>`,
    ...states.map((state) => drawState(state, visited, current ?? null)),
    ...plain.map((arrow) => drawArrow(arrow, head, false)),
    ...[...taken].map((arrow) => drawArrow(arrow, takenHead, true)),
    "</svg>",
    "",
  ].join("\n")
}
