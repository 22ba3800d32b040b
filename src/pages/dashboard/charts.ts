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
  readonly kind: "bars" | "line"
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

/** Draws a chart with its table. */
export const chart = ({ label, kind, points, text, columns }: Chart): Html => {
  const [first, last] = [points[0]?.name ?? "", points.at(-1)?.name ?? ""]
  return html`<svg class="chart" viewBox="0 0 300 72" role="img" aria-label="${label}"><path class="axis" d="M0 56.5H300"></path>${
    kind === "bars" ? bars(points) : line(points)
  }<text x="0" y="${HEIGHT - 3}">${first}</text><text x="${WIDTH}" y="${HEIGHT - 3}" text-anchor="end">${last}</text></svg>
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
