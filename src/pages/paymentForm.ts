/** Renders the form for a payment method, on checkout and payment pages. It posts the fields of decision G8. */
import { formatKobo, VERIFICATION_KOBO } from "../base/money.ts"
import { type Errors, errorId, hidden, invalid, textField, wrong } from "./fields.ts"
import { type Html, html } from "./html.ts"
import type { AmountChoice, FieldError, FormField, PaymentForm, SavedMethod, TypedDetails } from "./views.ts"
import { declinedOn, expiry, paymentMethod } from "./words.ts"

export interface FormPage {
  readonly form: PaymentForm
  readonly business: string
  readonly simulated: boolean
  /** The sentences below the button. */
  readonly terms: ReadonlyArray<string>
  /** Where a buyer goes to cancel; null: nowhere. */
  readonly cancelUrl: string | null
}

/** The button's label, and its label while the browser waits. */
const BUTTON: Readonly<Record<PaymentForm["purpose"], (amountKobo: number) => readonly [string, string]>> = {
  pay: (amountKobo) => [`Pay ${formatKobo(amountKobo)}`, "Paying…"],
  start_trial: (amountKobo) =>
    amountKobo > 0
      ? [`Pay ${formatKobo(amountKobo)} and start free trial`, "Paying…"]
      : ["Start free trial", "Starting…"],
  save: (amountKobo) =>
    amountKobo > 0
      ? [`Pay ${formatKobo(amountKobo)} and save payment method`, "Paying…"]
      : ["Save payment method", "Saving…"],
}

/** The form's ID, for fields outside it, such as the sandbox's. */
export const FORM_ID = "payment"
/** The IDs that browser.js and style.css use. */
export const TEST_METHOD_ID = "test_method"
const ANOTHER_ID = "another_card"

const detailFields = (
  { name, email, phone }: TypedDetails,
  { errors, takesCards }: PaymentForm,
): Html => html`<fieldset>
<legend>Your details</legend>
<div class="fields">
${textField({ name: "name", label: "Name", autocomplete: "name", value: name, required: true }, errors)}
${textField({ name: "email", label: "E-mail", type: "email", inputmode: "email", autocomplete: "email", value: email, ...(takesCards ? { hint: "(optional)" } : { required: true }) }, errors)}
${textField({ name: "phone", label: "Phone", type: "tel", inputmode: "tel", autocomplete: "tel", value: phone, hint: "(optional) 0803 123 4567 or +234 803 123 4567" }, errors)}
</div>
</fieldset>
`

/** For an existing customer who enters another payment method. */
const emailField = (email: string, errors: Errors): Html => html`<fieldset class="new-card">
<legend>Your details</legend>
<div class="fields">
${textField({ name: "email", label: "E-mail", type: "email", inputmode: "email", autocomplete: "email", value: email, required: true }, errors)}
</div>
</fieldset>
`

const hiddenDetails = ({ name, email, phone }: TypedDetails): Html =>
  html`${hidden("name", name)}${hidden("email", email)}${hidden("phone", phone)}`

const choice = (method: SavedMethod, first: boolean, { chosen }: PaymentForm): Html =>
  html`<label class="choice"><input type="radio" class="saved" name="payment_method" id="${first && "payment_method"}" value="${method.id}" checked="${method.id === chosen}"><span>${paymentMethod(method)} <small>${[expiry(method), declinedOn(method.declinedAt)].filter((word) => word !== null).join(", ")}</small></span></label>
`

const choices = (
  form: PaymentForm,
): Html => html`<fieldset role="radiogroup" aria-labelledby="choices" aria-invalid="${invalid(form.errors, "payment_method")}" aria-describedby="${invalid(form.errors, "payment_method") && errorId("payment_method")}">
<legend id="choices">Payment method</legend>
${wrong(form.errors, "payment_method")}<div class="choices">
${form.saved.map((method, index) => choice(method, index === 0, form))}
<label class="choice"><input type="radio" id="${ANOTHER_ID}" name="payment_method" value="" checked="${form.chosen === null}"><span>${form.takesCards ? "Another card" : "Another payment method"}</span></label>
</div>
</fieldset>
`

const cardFields = ({ saved, errors }: PaymentForm, simulated: boolean): Html => html`<fieldset class="new-card">
<legend>${saved.length === 0 ? "Card" : "Another card"}</legend>
${saved.length === 0 && !simulated && wrong(errors, "payment_method")}<div class="fields">
${textField({ name: "card_number", label: "Card number", autocomplete: "cc-number", inputmode: "numeric", placeholder: "1234 5678 9012 3456", maxlength: 30 }, errors)}
${textField({ name: "card_expiry", label: "Expiry", hint: "MM/YY", autocomplete: "cc-exp", inputmode: "numeric", placeholder: "12/34", maxlength: 7, half: true }, errors)}
${textField({ name: "card_cvc", label: "CVC", autocomplete: "cc-csc", inputmode: "numeric", placeholder: "123", maxlength: 4, half: true }, errors)}
</div>
</fieldset>
`

const railPageNotice = ({ saved, errors, purpose }: PaymentForm): Html => html`<div class="new-card">
${saved.length === 0 && wrong(errors, "payment_method")}<p class="notice">You give your payment details at the payment company’s own page, where you go next.${
  purpose !== "pay" &&
  ` It takes ${formatKobo(VERIFICATION_KOBO)} to make sure that the payment method is yours, and sends it back immediately.`
}</p>
</div>
`

const otpFields = (form: PaymentForm, simulated: boolean): Html => html`${
  form.details !== null && hiddenDetails(form.details)
}${hidden("payment_method", form.chosen ?? "")}<fieldset>
<legend>Your bank asks for a one-time code</legend>
<p class="quiet small">It sends the code to your phone or shows it in its app.${
  simulated && " In the sandbox it is 123456."
}</p>
<div class="fields">
${textField({ name: "otp", label: "One-time code", autocomplete: "one-time-code", inputmode: "numeric", maxlength: 12, required: true, focused: true }, form.errors)}
</div>
</fieldset>
`

/** Renders the amount field, for a buyer who chooses the amount. */
const amountField = (choice: AmountChoice, errors: Errors): Html => html`<fieldset>
<legend>Amount</legend>
<div class="fields">
${textField({ name: "amount", label: "Amount in naira", inputmode: "numeric", autocomplete: "off", value: choice.value, required: true, maxlength: 15, hint: range(choice) }, errors)}
</div>
</fieldset>
`

const range = ({ leastKobo, mostKobo }: AmountChoice): string =>
  leastKobo === mostKobo ? formatKobo(mostKobo) : `from ${formatKobo(leastKobo)} to ${formatKobo(mostKobo)}`

/** Renders the hidden fields about the amount. */
const hiddenAmount = ({ chooses, amountKobo, asksOtp }: PaymentForm): Html => {
  if (chooses === null) return hidden("amount", amountKobo)
  return html`${hidden("seen", chooses.seenKobo)}${asksOtp && hidden("amount", chooses.value)}`
}

const allFields = (form: PaymentForm, simulated: boolean): Html =>
  html`${form.chooses !== null && amountField(form.chooses, form.errors)}${
    form.details !== null && detailFields(form.details, form)
  }${form.saved.length > 0 && choices(form)}${form.email !== null && emailField(form.email, form.errors)}${form.takesCards ? cardFields(form, simulated) : railPageNotice(form)}`

/** Returns the path of the page that `action` belongs to, which asks for a payment method again. */
const pagePath = ({ action }: PaymentForm): string | undefined => /^(\/.+)\/complete$/.exec(action)?.[1]

/** Renders the links out of the form. */
const linksOf = ({ form, business, cancelUrl }: FormPage): ReadonlyArray<Html> => {
  const page = form.asksOtp ? pagePath(form) : undefined
  const other = page === undefined ? [] : [html`<a class="link" href="${page}">Use another payment method</a><br>`]
  return cancelUrl === null
    ? other
    : [...other, html`<a class="link" href="${cancelUrl}">Cancel and go back to ${business}</a>`]
}

export const paymentForm = (page: FormPage): Html => {
  const { form, simulated, terms } = page
  const links = linksOf(page)
  const [label, busy] = form.chooses === null ? BUTTON[form.purpose](form.amountKobo) : ["Pay now", "Paying…"]
  return html`<section class="card stack" aria-label="Payment">
<form id="${FORM_ID}" method="post" action="${form.action}" novalidate>
${hidden("submission", form.submission)}${hiddenAmount(form)}${
  form.asksOtp ? otpFields(form, simulated) : allFields(form, simulated)
}<button class="button" type="submit" data-busy="${busy}">${label}</button>
</form>
<div class="quiet small stack">${terms.map((sentence) => html`<p>${sentence}</p>`)}</div>
${links.length > 0 && html`<p class="small">${links}</p>`}
</section>
`
}

const DETAILS: ReadonlyArray<FormField> = ["name", "email", "phone"]

/** Returns the ID of the field to correct, if the page shows it. */
const targetOf = (field: FormField, { form, simulated }: Pick<FormPage, "form" | "simulated">): string | null => {
  if (form.asksOtp || field === "otp") return form.asksOtp && field === "otp" ? field : null
  if (field === "amount") return form.chooses === null ? null : field
  if (DETAILS.includes(field)) return form.details === null && (field !== "email" || form.email === null) ? null : field
  if (field !== "payment_method") return form.takesCards ? field : null
  if (form.saved.length > 0) return field
  return form.takesCards ? (simulated ? TEST_METHOD_ID : "card_number") : null
}

const errorItem = ({ message }: FieldError, target: string | null): Html =>
  target === null ? html`<li>${message}</li>` : html`<li><a href="${`#${target}`}">${message}</a></li>`

/** Renders the errors, first on the page; false: there are none. */
export const errorSummary = (page: Pick<FormPage, "form" | "simulated">): Html | false => {
  const { errors, refusal } = page.form
  return (
    (errors.length > 0 || refusal !== null) &&
    html`<div class="notice error" role="alert" tabindex="-1">
<h2>${refusal ?? "Please check what you have typed"}</h2>
${errors.length > 0 && html`<ul>${errors.map((error) => errorItem(error, targetOf(error.field, page)))}</ul>`}
</div>
`
  )
}

/** Returns the page's title, or another one for a one-time code; an error is announced first. */
export const titled = (title: string, { errors, refusal, asksOtp }: PaymentForm): string => {
  const wanted = asksOtp ? "Enter the code from your bank" : title
  return errors.length > 0 || refusal !== null ? `Error: ${wanted}` : wanted
}
