/** Renders the machine of a subscription at a version: the picture with the path taken, a slider through its journal, the context. */
import type { SubscriptionContext } from "../../../machines/periods.ts"
import type { Transition } from "../../runtime/timelineApi.ts"
import { type Html, html, type Value } from "../html.ts"
import { pictureOf, type Step } from "../pictures/draw.ts"
import { happened } from "./happened.ts"
import { type Brought, causeText } from "./lanes.ts"
import { facts, naira, section, when, words } from "./parts.ts"
import { pictureRegion } from "./picture.ts"

export interface Life {
  readonly version: number
  /** The version now. */
  readonly newest: number
  readonly state: string
  readonly path: ReadonlyArray<Step>
  /** null: it is behind too many transitions to be replayed. */
  readonly context: SubscriptionContext | null
}

export interface LifeView {
  readonly title: string
  /** The path of the page. */
  readonly path: string
  readonly life: Life
  /** The transition that led to the version; null: it is not in the journal. */
  readonly item: typeof Transition.Type | null
  readonly brought: Brought
}

/** Makes words of a field's name: `periodEnd` is "Period end". */
const label = (name: string): string => {
  const text = name.replace(/(Kobo|At)$/, "").replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`
}

const INSTANT = /(At|Start|End)$/

/** A value of the context in words and numbers. */
const shown = (name: string, value: unknown): Value => {
  if (value === null || value === undefined) return null
  if (typeof value === "boolean") return value ? "yes" : "no"
  if (typeof value === "number")
    return name.endsWith("Kobo") ? naira(value) : INSTANT.test(name) ? when(value) : String(value)
  if (typeof value === "string") return words(value)
  if (Array.isArray(value))
    return value.length === 0
      ? null
      : value
          .map((one) => (one instanceof Object ? "" : String(one)))
          .filter(Boolean)
          .join(", ") || `${value.length}`
  return null
}

/** The fields of the context; those of its parts (the bill, the retries, a pause) with the name of the part. */
const pairs = (context: object, of = ""): ReadonlyArray<readonly [string, Value]> =>
  Object.entries(context).flatMap(([name, value]) =>
    value instanceof Object && !Array.isArray(value)
      ? pairs(value, of === "" ? label(name) : `${of}, ${label(name).toLowerCase()}`)
      : [[of === "" ? label(name) : `${of}: ${label(name).toLowerCase()}`, shown(name, value)] as const],
  )

const slider = ({ path, life: { version, newest } }: LifeView): Html => {
  const to = (next: number) => `${path}?version=${next}#machine`
  return html`<form class="slider" action="${`${path}#machine`}"><label for="version">Version ${version} of ${newest}</label><input id="version" name="version" type="range" min="1" max="${newest}" value="${version}"><button class="plain">Show this version</button></form>
<p class="pager">${version > 1 && html`<a href="${to(version - 1)}" rel="prev">Earlier</a>`}${version < newest && html`<a href="${to(version + 1)}" rel="next">Later</a><a href="${`${path}#machine`}">Now</a>`}</p>
`
}

export const lifeMain = (view: LifeView): Html => {
  const { title, life, item, brought } = view
  const { version, state, path, context } = life
  const picture = pictureOf("subscription")!
  return html`<div id="machine">${section(
    "The machine",
    html`${slider(view)}${facts([
      ["State", state],
      ...(item === null
        ? []
        : [
            ["What happened", html`${happened(String(item.event.type))}, ${causeText(item, brought)}`] as const,
            ["When", when(item.at)] as const,
          ]),
    ])}${pictureRegion(picture, { title: `The machine of ${title} at version ${version}, in ${state}`, path, current: state })}
<details><summary>Everything it knows at version ${version}</summary>${
      context === null
        ? html`<p class="quiet">This version is behind too many transitions to be computed for a page. The command line replays it: journal replay.</p>`
        : facts(pairs(context))
    }</details>`,
  )}</div>`
}
