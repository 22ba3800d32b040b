/** Renders the pages of machines: what each is, how many objects are in each state now, and how many took each arrow (decision R11). */
import { type Html, html } from "../html.ts"
import { arrowCounts, type CountedState, type CountedStep, type Picture } from "../pictures/draw.ts"
import { followed } from "./live.ts"
import { naira, notice, pageHead, section, table } from "./parts.ts"
import { pictureRegion } from "./picture.ts"

export interface MachineInList {
  readonly kind: string
  readonly name: string
  readonly meaning: string
  /** How many objects there are; null: they are not counted. */
  readonly objects: number | null
}

export const machinesMain = (base: string, machines: ReadonlyArray<MachineInList>): Html =>
  html`${pageHead("Machines", "Every object lives by a machine: its states, and what leads from one to the next. Open one to see how many of yours are where.")}${table(
    "Machines",
    [
      {
        name: "Machine",
        cell: ({ kind, name }: MachineInList) => html`<a href="${`${base}/machines/${kind}`}">${name}</a>`,
      },
      { name: "What it is", cell: ({ meaning }) => meaning },
      { name: "Objects", cell: ({ objects }) => (objects === null ? "–" : count(objects)), isNumber: true },
    ],
    machines,
  )}`

/** The spans of the counts of arrows. */
export const SPANS = { day: 24, week: 7 * 24, month: 30 * 24 } as const
export type Span = keyof typeof SPANS
const SPAN_NAMES: Readonly<Record<Span, string>> = { day: "24 hours", week: "7 days", month: "30 days" }

export interface ShownState {
  readonly state: string
  readonly actors: number
  readonly kobo: number
  /** The list of its objects; null: there is none. */
  readonly href: string | null
}

export interface MachineView {
  readonly kind: string
  readonly name: string
  readonly meaning: string
  readonly path: string
  readonly span: Span
  readonly picture: Picture
  /** The amount of an object, in words; null: nothing. */
  readonly amount: string | null
  /** null: this machine's objects are not counted. */
  readonly counts: Counts | null
}

export interface Counts {
  /** null: this account was not counted yet. */
  readonly countedAt: number | null
  readonly states: ReadonlyArray<ShownState>
  readonly steps: ReadonlyArray<CountedStep>
}

const count = (number: number): string => number.toLocaleString("en-NG")

/** The most arrows that the table lists; the picture has them all. */
const MAX_STEPS = 60

/** The states of a picture with their counts; a group has the sum of its states. */
const pictured = ({ picture }: MachineView, states: ReadonlyArray<ShownState>): ReadonlyMap<string, CountedState> =>
  new Map(
    picture.states.map(({ name }) => {
      const within = states.filter(({ state }) => state === name || state.startsWith(`${name}.`))
      const sum = within.reduce((total, { actors }) => total + actors, 0)
      return [name, { count: sum, href: within[0]?.href ?? null }]
    }),
  )

const spans = ({ path, span }: MachineView): Html =>
  html`<p class="spans" role="group" aria-label="Transitions of the last">${(
    Object.keys(SPANS) as ReadonlyArray<Span>
  ).map(
    (one) =>
      html`<a href="${`${path}?span=${one}`}" aria-current="${one === span ? "true" : null}">${SPAN_NAMES[one]}</a>`,
  )}</p>
`

/** The states that objects are in, and the names of the others. */
const statesTable = (view: MachineView, states: ReadonlyArray<ShownState>): Html => {
  const taken = states.filter(({ actors }) => actors > 0)
  const others = states.filter(({ actors }) => actors === 0).map(({ state }) => state)
  return html`${taken.length > 0 && takenTable(view, taken)}${others.length > 0 && html`<p class="quiet small">Nothing is in: ${others.join(", ")}.</p>`}`
}

const takenTable = ({ amount }: MachineView, states: ReadonlyArray<ShownState>): Html =>
  table(
    "States",
    [
      {
        name: "State",
        cell: ({ state, href }: ShownState) => (href === null ? state : html`<a href="${href}">${state}</a>`),
      },
      { name: "Now", cell: ({ actors }) => count(actors), isNumber: true },
      ...(amount === null ? [] : [{ name: amount, cell: ({ kobo }: ShownState) => naira(kobo), isNumber: true }]),
    ],
    states,
  )

const stepsTable = (steps: ReadonlyArray<CountedStep>): Html =>
  steps.length === 0
    ? html`<p class="quiet">No transitions.</p>`
    : table(
        "Transitions",
        [
          { name: "From", cell: ({ from }: CountedStep) => from },
          { name: "By", cell: ({ trigger }) => trigger },
          { name: "To", cell: ({ to }) => to },
          { name: "How many", cell: ({ transitions }) => count(transitions), isNumber: true },
        ],
        steps.slice(0, MAX_STEPS),
      )

/** The part of the page that follows what happens. */
export const machinePart = (view: MachineView): Html => {
  const { name, picture, counts, span } = view
  if (counts === null) return pictureRegion(picture, { title: `The machine: ${name}` })
  const { countedAt, states, steps } = counts
  const title = `The machine: ${name}, with how many are in each state, and how many took each arrow in ${SPAN_NAMES[span]}`
  return html`${
    countedAt === null &&
    notice("note", html`<p>This account is being counted: the numbers appear within a minute.</p>`)
  }${pictureRegion(picture, { title, states: pictured(view, states), arrows: arrowCounts(picture.arrows, steps) })}
${section("In each state now", statesTable(view, states))}${section(`Transitions in ${SPAN_NAMES[span]}`, stepsTable(steps))}${
  countedAt !== null &&
  html`<p class="quiet small">Transitions are counted by the hour in which they were recorded, the running hour included.</p>`
}`
}

export const machineMain = (view: MachineView): Html => {
  const { name, meaning, path, span, counts } = view
  const part = machinePart(view)
  return html`${pageHead(name, meaning)}${counts !== null && spans(view)}${counts === null ? part : followed(`${path}/live?span=${span}`, part)}`
}
