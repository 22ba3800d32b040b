/** Renders the page of the rail of live payments: which one, and its credentials (decisions P1, P4). */
import { type OutsideRail, RAIL_CREDENTIALS, type RailName } from "../../rails/rail/Rail.ts"
import { type Html, html } from "../html.ts"
import { errorSummary, type Field, fieldRow, hiddenField, NOTHING_TYPED, type Wrong } from "./fields.ts"
import { facts, pageHead, section, when, words } from "./parts.ts"

export interface RailView {
  readonly rail: RailName
  /** The rails that can be switched to, the present one included. */
  readonly rails: ReadonlyArray<RailName>
  /** When the credentials of each rail were stored. */
  readonly stored: ReadonlyMap<OutsideRail, number>
  readonly refusal: string | null
  /** The rail whose form was refused, with what is wrong at its fields. */
  readonly refused: { readonly rail: OutsideRail; readonly wrong: Wrong } | null
  readonly formToken: string
}

const NAMES: Readonly<Record<RailName, string>> = {
  simulator: "Simulator",
  paystack: "Paystack",
  flutterwave: "Flutterwave",
}

/** Fields carry the name of their rail: a page has one field of each label. */
const fieldsOf = (rail: OutsideRail): ReadonlyArray<Field> =>
  RAIL_CREDENTIALS[rail].map((name) => ({
    name,
    label: `${words(name).replace(/^./, (first) => first.toUpperCase())} of ${NAMES[rail]}`,
    kind: "secret",
    isRequired: true,
    maxlength: 500,
  }))

const credentialsForm = ({ stored, refused, formToken }: RailView, rail: OutsideRail): Html => {
  const wrong: Wrong = refused?.rail === rail ? refused.wrong : new Map()
  const at = stored.get(rail)
  const fields = fieldsOf(rail)
  // Two forms have fields of the same name: IDs of fields are made from their names.
  const own = fields.map((field) => ({ ...field, name: `${rail}.${field.name}` }))
  const ownWrong: Wrong = new Map([...wrong].map(([name, message]) => [`${rail}.${name}`, message]))
  return section(
    `Credentials of ${NAMES[rail]}`,
    html`<div class="stack"><p>${at === undefined ? "None are stored." : html`Stored ${when(at)}. They are never shown.`} New ones replace them, and live payments go by ${NAMES[rail]} from then on.</p>
<form method="post" action="${`/dashboard/account/rail/${rail}`}" class="card form">${errorSummary(own, ownWrong, null)}${hiddenField("form_token", formToken)}${own.map(
      (field) => fieldRow(field, NOTHING_TYPED, ownWrong),
    )}<p class="actions"><button class="button">${at === undefined ? "Store" : "Replace"} the credentials of ${NAMES[rail]}</button></p></form></div>`,
  )
}

export const railMain = (view: RailView): Html => {
  const { rail, rails, stored, refusal, formToken } = view
  const others = rails.filter((one) => one !== rail && (one === "simulator" || stored.has(one)))
  return html`${pageHead("Payment rail", "Where live payments go. The sandbox always uses the simulator.")}${errorSummary([], new Map(), refusal)}${facts(
    [["Live payments go by", NAMES[rail]]],
  )}
${
  others.length > 0 &&
  section(
    "Switch",
    html`<p>Saved payment methods stay with their rail: only new ones use the other.</p>
<form method="post" action="/dashboard/account/rail" class="form">${hiddenField("form_token", formToken)}<p class="actions">${others.map(
      (one) => html`<button class="plain" name="rail" value="${one}">Switch to ${NAMES[one]}</button>`,
    )}</p></form>`,
  )
}${(["paystack", "flutterwave"] as const).map((one) => credentialsForm(view, one))}
<p class="section"><a href="/dashboard/account">Account</a></p>`
}
