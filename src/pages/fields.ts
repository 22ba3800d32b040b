/** Renders form fields with their errors: the message is at the field, and is read out with it. */
import { type Html, html } from "./html.ts"
import type { FieldError, FormField } from "./views.ts"

export interface Field {
  readonly name: FormField
  readonly label: string
  readonly autocomplete: string
  readonly type?: "text" | "email" | "tel"
  readonly inputmode?: "numeric" | "email" | "tel"
  readonly value?: string
  /** Shown after the label. */
  readonly hint?: string
  readonly placeholder?: string
  readonly required?: boolean
  /** The one field that the page asks for. */
  readonly focused?: boolean
  readonly maxlength?: number
  /** As wide as half the form. */
  readonly half?: boolean
}

export type Errors = ReadonlyArray<FieldError>

const errorOf = (errors: Errors, name: FormField): FieldError | undefined => errors.find(({ field }) => field === name)

/** Returns the value of `aria-invalid` for a field. */
export const invalid = (errors: Errors, name: FormField): "true" | null =>
  errorOf(errors, name) === undefined ? null : "true"

export const errorId = (name: FormField): string => `${name}-error`

/** Renders the error of a field; undefined: it has none. */
export const wrong = (errors: Errors, name: FormField): Html | undefined => {
  const error = errorOf(errors, name)
  return (
    error && html`<span class="wrong" id="${errorId(name)}"><span class="unseen">Error: </span>${error.message}</span>`
  )
}

export const textField = (field: Field, errors: Errors): Html => {
  const { name, label, hint, half } = field
  const hintId = hint === undefined ? undefined : `${name}-hint`
  const described = [hintId, invalid(errors, name) && errorId(name)].filter(Boolean).join(" ")
  return html`<div class="${half === true ? "field half" : "field"}">
<label for="${name}">${label}</label>${hint && html` <span class="hint" id="${hintId}">${hint}</span>`}
<input id="${name}" name="${name}" type="${field.type ?? "text"}" value="${field.value}" autocomplete="${field.autocomplete}" inputmode="${field.inputmode}" placeholder="${field.placeholder}" maxlength="${field.maxlength}" required="${field.required}" autofocus="${field.focused === true && errorOf(errors, name) === undefined}" aria-invalid="${invalid(errors, name)}" aria-describedby="${described === "" ? null : described}">
${wrong(errors, name)}</div>
`
}

export const hidden = (name: string, value: string | number): Html =>
  html`<input type="hidden" name="${name}" value="${value}">
`
