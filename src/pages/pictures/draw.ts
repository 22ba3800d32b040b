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

/** The file is written by `npm run machines` from this type; TypeScript reads its pairs of numbers as lists. */
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

/** A number that fits a badge: 999, 12.3k, 4.5M. */
const short = (count: number): string => {
  if (count < 1_000) return String(count)
  const [divisor, unit] = count < 1_000_000 ? [1_000, "k"] : [1_000_000, "M"]
  const value = count / divisor
  return `${value < 99.95 ? Math.floor(value * 10) / 10 : Math.floor(value)}${unit}`
}

/** A number at the right upper corner of a state. */
const badge = ({ x, y, width }: State, count: number): string => {
  const text = short(count)
  const size = 14 + text.length * 7
  const left = x + width - size + 8
  return `<g class="count"><rect x="${left}" y="${y - 9}" width="${size}" height="18" rx="9"/><text x="${left + size / 2}" y="${y + 4}" text-anchor="middle">${text}</text></g>`
}

const drawState = (state: State, visited: ReadonlySet<string>, shown: Shown): string => {
  const { name, x, y, width, height, isGroup } = state
  const { current, states } = shown
  const counted = states?.get(name)
  const label = name.split(".").at(-1)!
  const wasThere = [...visited].some((one) => isIn(one, name))
  const place = isGroup
    ? `x="${x + 10}" y="${y + 20}"`
    : `x="${x + width / 2}" y="${y + height / 2 + 4}" text-anchor="middle"`
  const content = `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="${isGroup ? 12 : 8}"/><text ${place}>${escaped(label)}</text>${counted === undefined ? "" : ` ${badge(state, counted.count)}`}`
  const href = counted?.href ?? null
  const linked = href === null ? content : `<a href="${escaped(href)}">${content}</a>`
  const attributes = [
    name === current ? ' aria-current="true"' : "",
    counted === undefined ? "" : ` data-count="${counted.count}"`,
    wasThere ? ' class="visited"' : "",
  ]
  return `<g data-state="${escaped(name)}"${attributes.join("")}>${linked}</g>`
}

const drawArrow = (arrow: Arrow, head: string, isTaken: boolean, count: number | undefined): string => {
  const { from, to, points, label } = arrow
  const [[x, y], ...rest] = points as [readonly [number, number], ...Array<readonly [number, number]>]
  const path = `M${x} ${y}${rest.map(([left, top]) => `L${left} ${top}`).join("")}`
  const counted = count === undefined || count === 0 ? [] : [`${short(count)} ×`]
  const lines = [...label.lines, ...counted]
    .map((line, index) => `<tspan x="${label.x + 3}" y="${label.y + 11 + index * 15}">${escaped(line)}</tspan>`)
    .join("")
  return `<g class="arrow${isTaken ? " taken" : ""}" data-from="${escaped(from)}" data-to="${escaped(to)}"${count === undefined ? "" : ` data-count="${count}"`}><path d="${path}" marker-end="url(#${head})"/><text>${lines}</text></g>`
}

const marker = (id: string, kind: string): string =>
  `<marker id="${id}" class="head ${kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker>`

/** What is counted of a state: its actors now, and the page that lists them (null: there is none). */
export interface CountedState {
  readonly count: number
  readonly href: string | null
}

/** How many transitions went from one state to another by a trigger. */
export interface CountedStep extends Step {
  readonly transitions: number
}

/**
 * Returns how many transitions took each arrow. A transition that may have taken several arrows (it passed through a state that decides)
 * counts for the first of those that lead where it went.
 */
export const arrowCounts = (
  arrows: ReadonlyArray<Arrow>,
  steps: ReadonlyArray<CountedStep>,
): ReadonlyMap<Arrow, number> => {
  const counts = new Map(arrows.map((arrow) => [arrow, 0]))
  for (const step of steps) {
    const possible = arrows.filter((arrow) => matches(arrow, step))
    const arrow = possible.find(({ to }) => isIn(step.to, to)) ?? possible[0]
    if (arrow !== undefined) counts.set(arrow, counts.get(arrow)! + step.transitions)
  }
  return counts
}

/** What a picture shows besides the machine: its title for people who cannot see it, the path and the state of an actor, and counts. */
export interface Shown {
  readonly title: string
  readonly path?: ReadonlyArray<Step>
  readonly current?: string
  /** By the names of states. */
  readonly states?: ReadonlyMap<string, CountedState>
  readonly arrows?: ReadonlyMap<Arrow, number>
}

/** Draws a picture; the page has the style (machine.css). A path is in a strong colour, the state now is filled. */
export const draw = ({ width, height, states, arrows }: Picture, shown: Shown, style = ""): string => {
  const { title, path = [] } = shown
  const taken = takenBy(arrows, path)
  // Several pictures may stand on one page.
  const name = title.replaceAll(/[^A-Za-z0-9]+/g, "-")
  const [head, takenHead] = [`head-${name}`, `taken-head-${name}`]
  const visited = new Set(path.flatMap(({ from, to }) => [from, to]))
  const plain = arrows.filter((arrow) => !taken.has(arrow))
  // A picture with links is a group: within an image they could not be reached.
  const role = [...(shown.states?.values() ?? [])].some(({ href }) => href !== null) ? "group" : "img"
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" class="machine" viewBox="-8 -12 ${width + 16} ${height + 20}" width="${width + 16}" height="${height + 20}" role="${role}" aria-label="${escaped(title)}">`,
    ...(style === "" ? [] : [`<style>${style}</style>`]),
    `<defs>${marker(head, "plain")}${marker(takenHead, "taken")}</defs>`,
    ...states.map((state) => drawState(state, visited, shown)),
    ...plain.map((arrow) => drawArrow(arrow, head, false, shown.arrows?.get(arrow))),
    ...[...taken].map((arrow) => drawArrow(arrow, takenHead, true, shown.arrows?.get(arrow))),
    "</svg>",
    "",
  ].join("\n")
}
