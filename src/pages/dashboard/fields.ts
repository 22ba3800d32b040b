/** Renders the fields of the dashboard's forms, each with its label, hint and error. */
import { type Html, html } from "../html.ts"

export interface Choice {
  readonly value: string
  readonly label: string
}

/** How a field is typed. `secret`: it is never shown again; `naira`: an amount such as 2,500.00; `instant`: a day and time in Lagos; `lines`: `key=value`, one in a line. */
export type FieldKind =
  | "text"
  | "email"
  | "tel"
  | "url"
  | "code"
  | "secret"
  | "number"
  | "naira"
  | "instant"
  | "textarea"
  | "lines"
  | "select"
  | "radios"
  | "checkbox"
  | "checkboxes"

export interface Field {
  readonly name: string
  readonly label: string
  readonly kind: FieldKind
  readonly hint?: string | undefined
  readonly isRequired?: boolean
  readonly choices?: ReadonlyArray<Choice>
  readonly autocomplete?: string
  readonly maxlength?: number
  readonly isFocused?: boolean
  /** The heading of the group that it belongs to; fields of a group follow each other. */
  readonly group?: string
  /** A filter of a list: it is not called optional. */
  readonly isFilter?: boolean
}

/** What was typed, by the name of the field. Several values: several checkboxes. */
export type Typed = ReadonlyMap<string, ReadonlyArray<string>>

/** What is wrong, by the name of the field. */
export type Wrong = ReadonlyMap<string, string>

export const NOTHING_TYPED: Typed = new Map()
export const NOTHING_WRONG: Wrong = new Map()

export const hiddenField = (name: string, value: string | number): Html =>
  html`<input type="hidden" name="${name}" value="${value}">`

const TYPES: Readonly<Partial<Record<FieldKind, string>>> = {
  email: "email",
  tel: "tel",
  url: "url",
  number: "number",
  secret: "password",
  instant: "datetime-local",
}

const idOf = (name: string): string => `field-${name.replaceAll(/[^a-zA-Z0-9_-]/g, "-")}`

const control = (
  field: Field,
  values: ReadonlyArray<string>,
  error: string | undefined,
  described: string | null,
): Html => {
  const { name, kind, isRequired = false, choices = [], autocomplete = "off", maxlength, isFocused = false } = field
  const [value = ""] = values
  const id = idOf(name)
  const invalid = error === undefined ? null : "true"
  if (kind === "textarea" || kind === "lines")
    return html`<textarea id="${id}" name="${name}" rows="4" required="${isRequired}" maxlength="${maxlength}" aria-invalid="${invalid}" aria-describedby="${described}">${value}</textarea>`
  if (kind === "select")
    return html`<select id="${id}" name="${name}" required="${isRequired}" aria-invalid="${invalid}" aria-describedby="${described}">${choices.map(
      (choice) => html`<option value="${choice.value}" selected="${choice.value === value}">${choice.label}</option>`,
    )}</select>`
  const inputmode = kind === "naira" ? "decimal" : kind === "code" ? "numeric" : null
  return html`<input id="${id}" name="${name}" type="${TYPES[kind] ?? "text"}" value="${kind === "secret" ? null : value}" autocomplete="${kind === "code" ? "one-time-code" : autocomplete}" inputmode="${inputmode}" maxlength="${maxlength}" required="${isRequired}" autofocus="${isFocused}" aria-invalid="${invalid}" aria-describedby="${described}">`
}

const group = (field: Field, values: ReadonlyArray<string>, error: string | undefined): Html => {
  const { name, label, kind, hint, choices = [] } = field
  const type = kind === "radios" ? "radio" : "checkbox"
  const errorId = `${idOf(name)}-error`
  return html`<fieldset class="field" aria-describedby="${error === undefined ? null : errorId}"><legend>${label}</legend>${
    hint !== undefined && html`<p class="hint">${hint}</p>`
  }<div class="choices">${choices.map(
    (choice) =>
      html`<label class="choice"><input type="${type}" name="${name}" value="${choice.value}" checked="${values.includes(choice.value)}"><span>${choice.label}</span></label>`,
  )}</div>${error !== undefined && html`<span class="wrong" id="${errorId}"><span class="unseen">Error: </span>${error}</span>`}</fieldset>
`
}

/** Renders one field with what was typed into it. */
export const fieldRow = (field: Field, typed: Typed, wrong: Wrong): Html => {
  const { name, label, kind, hint, isRequired = false, isFilter = false } = field
  const values = typed.get(name) ?? []
  const error = wrong.get(name)
  if (kind === "checkboxes" || kind === "radios") return group(field, values, error)
  const id = idOf(name)
  const errorId = `${id}-error`
  const hintId = `${id}-hint`
  const described = [hint === undefined ? [] : [hintId], error === undefined ? [] : [errorId]].flat().join(" ")
  const wrongText =
    error !== undefined && html`<span class="wrong" id="${errorId}"><span class="unseen">Error: </span>${error}</span>`
  if (kind === "checkbox")
    return html`<div class="field"><label class="choice" for="${id}"><input id="${id}" type="checkbox" name="${name}" value="true" checked="${values.includes("true")}" aria-describedby="${described === "" ? null : described}"><span>${label}${
      hint !== undefined && html`<small id="${hintId}">${hint}</small>`
    }</span></label>${wrongText}</div>
`
  return html`<div class="field"><label for="${id}">${label}</label>${!isRequired && !isFilter && html` <span class="hint">optional</span>`}${
    kind === "naira" && html` <span class="hint">in naira</span>`
  }${hint !== undefined && html` <p class="hint" id="${hintId}">${hint}</p>`}
${control(field, values, error, described === "" ? null : described)}
${wrongText}</div>
`
}

/** Renders fields in their groups. */
export const fieldRows = (fields: ReadonlyArray<Field>, typed: Typed, wrong: Wrong): ReadonlyArray<Html> =>
  [...Map.groupBy(fields, ({ group }) => group)].map(([name, inGroup]) => {
    const rows = inGroup.map((field) => fieldRow(field, typed, wrong))
    return name === undefined
      ? html`${rows}`
      : html`<fieldset class="field-group"><legend>${name}</legend>${rows}</fieldset>
`
  })

/** Renders the errors of fields at the top of a form, and one of the whole form. */
export const errorSummary = (fields: ReadonlyArray<Field>, wrong: Wrong, refusal: string | null): Html | false => {
  const named = fields.flatMap(({ name, label }) => {
    const message = wrong.get(name)
    return message === undefined ? [] : [html`<li><a href="${`#${idOf(name)}`}">${label}: ${message}</a></li>`]
  })
  if (named.length === 0 && refusal === null) return false
  return html`<div class="notice error" role="alert" tabindex="-1">${refusal !== null && html`<p>${refusal}</p>`}${
    named.length > 0 && html`<ul>${named}</ul>`
  }</div>
`
}
