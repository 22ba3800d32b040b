/** Draws charts as SVG on the server, each with its numbers as a table behind it. They need no script and no style of their own. */
import { type Html, html } from "../html.ts"
import { table } from "./parts.ts"

export interface Point {
  /** What it is about, such as a day. */
  readonly name: string
  readonly value: number
}

export interface Chart {
  /** What the chart shows, in words for people who do not see it. */
  readonly label: string
  /** `bars` and `line` go along days; `categories` has a bar with its name for each point; `meter` shows how much of the second is the first. */
  readonly kind: "bars" | "line" | "categories" | "meter"
  readonly points: ReadonlyArray<Point>
  /** Writes a value, such as an amount in naira. */
  readonly text: (value: number) => string
  /** The heads of the table's columns. */
  readonly columns: readonly [name: string, value: string]
}

const WIDTH = 300
const HEIGHT = 72
/** The line on which bars stand; below it are the names of the first and the last point. */
const GROUND = 56
const TOP = 6

/** Few bars stay narrow. */
const WIDEST_BAR = 40

const round = (value: number): number => Math.round(value * 10) / 10

/** Returns the height of a value above the ground line; a chart of zeros is flat. */
const scale = (points: ReadonlyArray<Point>) => {
  const highest = Math.max(...points.map(({ value }) => value), 0)
  return (value: number): number => (highest === 0 ? 0 : round((Math.max(value, 0) / highest) * (GROUND - TOP)))
}

const bars = (points: ReadonlyArray<Point>): ReadonlyArray<Html> => {
  const height = scale(points)
  const step = WIDTH / points.length
  const width = Math.min(step * 0.8, WIDEST_BAR)
  return points.map(({ value }, at) => {
    const tall = height(value)
    return html`<rect class="bar" x="${round(at * step)}" y="${round(GROUND - tall)}" width="${round(width)}" height="${tall}" rx="1"></rect>`
  })
}

const line = (points: ReadonlyArray<Point>): Html => {
  const height = scale(points)
  const step = points.length > 1 ? WIDTH / (points.length - 1) : 0
  const path = points.map(({ value }, at) => `${round(at * step)},${round(GROUND - height(value))}`).join(" ")
  return html`<polyline class="line" points="${path}"></polyline>`
}

/** Bars or a line on the ground, with the names of the first and the last point. */
const alongDays = (kind: "bars" | "line", points: ReadonlyArray<Point>): Html =>
  html`<path class="axis" d="M0 56.5H300"></path>${
    kind === "bars" ? bars(points) : line(points)
  }<text x="0" y="${HEIGHT - 3}">${points[0]?.name ?? ""}</text><text x="${WIDTH}" y="${HEIGHT - 3}" text-anchor="end">${points.at(-1)?.name ?? ""}</text>`

const ROW = 18
const BAR_AT = 90
const BAR_WIDTH = 150

/** A row for each point: its name, a bar, its value. */
const categories = (points: ReadonlyArray<Point>, text: (value: number) => string): ReadonlyArray<Html> => {
  const highest = Math.max(...points.map(({ value }) => value), 1)
  return points.map(({ name, value }, at) => {
    const width = round((value / highest) * BAR_WIDTH)
    return html`<text x="0" y="${at * ROW + 13}">${name}</text><rect class="bar" x="${BAR_AT}" y="${at * ROW + 3}" width="${width}" height="12" rx="2"></rect><text x="${WIDTH}" y="${at * ROW + 13}" text-anchor="end">${text(value)}</text>`
  })
}

const METER_HEIGHT = 12

const meter = ([part, whole]: ReadonlyArray<Point>): Html => {
  const share = whole === undefined || whole.value === 0 ? 1 : Math.min((part?.value ?? 0) / whole.value, 1)
  return html`<rect class="track" width="${WIDTH}" height="${METER_HEIGHT}" rx="6"></rect><rect class="bar" width="${round(share * WIDTH)}" height="${METER_HEIGHT}" rx="6"></rect>`
}

const drawn = ({ kind, points, text }: Chart): readonly [height: number, content: Html | ReadonlyArray<Html>] => {
  switch (kind) {
    case "categories":
      return [points.length * ROW, categories(points, text)]
    case "meter":
      return [METER_HEIGHT, meter(points)]
    default:
      return [HEIGHT, alongDays(kind, points)]
  }
}

/** Draws a chart with its table. */
export const chart = (chart: Chart): Html => {
  const { label, points, text, columns } = chart
  const [height, content] = drawn(chart)
  return html`<svg class="chart" viewBox="${`0 0 ${WIDTH} ${height}`}" role="img" aria-label="${label}">${content}</svg>
<details><summary>${label}: the numbers</summary>${table(
    label,
    [
      { name: columns[0], cell: ({ name }: Point) => name },
      { name: columns[1], cell: ({ value }) => text(value), isNumber: true },
    ],
    points.filter(({ value }) => value !== 0),
  )}</details>
`
}
