/** Renders the pages of signing up and in, and of invitations. */
import { type Html, html } from "../html.ts"
import { errorSummary, type Field, fieldRow, hiddenField, type Typed, type Wrong } from "./fields.ts"
import { frontDoor } from "./frame.ts"

/** A form as it is shown, also after a refusal. */
export interface FormView {
  readonly typed: Typed
  readonly wrong: Wrong
  readonly refusal: string | null
  readonly formToken: string
}

const EMAIL: Field = {
  name: "email",
  label: "E-mail",
  kind: "email",
  isRequired: true,
  autocomplete: "username webauthn",
  maxlength: 254,
}

const SIGN_UP_FIELDS: ReadonlyArray<Field> = [
  {
    name: "business_name",
    label: "Business name",
    kind: "text",
    isRequired: true,
    autocomplete: "organization",
    maxlength: 120,
    isFocused: true,
  },
  EMAIL,
]
const SIGN_IN_FIELDS: ReadonlyArray<Field> = [{ ...EMAIL, isFocused: true }]
const CODE_FIELDS: ReadonlyArray<Field> = [
  {
    name: "code",
    label: "Code",
    kind: "code",
    hint: "Six digits, from the letter",
    isRequired: true,
    maxlength: 12,
    isFocused: true,
  },
]

const form = (
  action: string,
  fields: ReadonlyArray<Field>,
  button: string,
  view: FormView,
  hidden: ReadonlyArray<Html>,
): Html =>
  html`<form method="post" action="${action}" class="card">${errorSummary(fields, view.wrong, view.refusal)}${hiddenField("form_token", view.formToken)}${hidden}${fields.map(
    (field) => fieldRow(field, view.typed, view.wrong),
  )}<button class="button">${button}</button></form>
`

export const signUpPage = (view: FormView): string =>
  frontDoor(
    "Sign up",
    html`<div class="stack"><h1>Sign up</h1>
<p>Your sandbox works at once: its keys are on the next page. Live is switched on when you ask for it.</p>
${form("/dashboard/sign-up", SIGN_UP_FIELDS, "Send the code", view, [])}
<p>You have an account? <a href="/dashboard/sign-in">Sign in</a></p></div>`,
  )

export interface SignInView extends FormView {
  /** The page that the sign-in leads to. */
  readonly next: string
  /** Whether a signed-in member is asked again. */
  readonly isAgain: boolean
}

/** Shown by the script, if the browser knows passkeys. */
const passkeyForm = ({ formToken, next }: Pick<SignInView, "formToken" | "next">): Html =>
  html`<form method="post" action="/dashboard/sign-in/passkey" class="card" data-passkey="sign-in" hidden="${true}">${hiddenField("form_token", formToken)}${hiddenField("next", next)}<button class="plain">Sign in with a passkey</button><p role="status" class="wrong"></p></form>
`

export const signInPage = (view: SignInView): string =>
  frontDoor(
    view.isAgain ? "Sign in again" : "Sign in",
    html`<div class="stack"><h1>${view.isAgain ? "Sign in again" : "Sign in"}</h1>
${view.isAgain && html`<p>What you are about to do needs a sign-in of the last 15 minutes.</p>`}
${form("/dashboard/sign-in", SIGN_IN_FIELDS, "Send the code", view, [hiddenField("next", view.next)])}
${passkeyForm(view)}
${!view.isAgain && html`<p>You are new here? <a href="/dashboard/sign-up">Sign up</a></p>`}</div>`,
  )

export interface CodeView extends FormView {
  readonly email: string
  readonly isSignUp: boolean
  readonly next: string
  readonly minutes: number
  /** The letter, in development only. */
  readonly letter: { readonly subject: string; readonly body: string } | null
}

export const codePage = (view: CodeView): string => {
  const { email, isSignUp, minutes, letter } = view
  return frontDoor(
    "Enter the code",
    html`<div class="stack"><h1>Enter the code</h1>
<p>We sent a letter to <strong>${email}</strong>. Its code is valid for ${minutes} minutes.</p>
${letter !== null && html`<section class="notice warning development" aria-label="Development"><h2>Development</h2><p>No e-mail is set up, so the letter is here.</p><p><strong>${letter.subject}</strong></p><p>${letter.body}</p></section>`}
${form("/dashboard/sign-in/code", CODE_FIELDS, isSignUp ? "Create the account" : "Sign in", view, [hiddenField("next", view.next)])}
<p>No letter? Look into your spam folder, or <a href="${isSignUp ? "/dashboard/sign-up" : "/dashboard/sign-in"}">ask for another code</a>.</p></div>`,
  )
}

export interface WelcomeView {
  readonly business: string
  readonly secretKey: string
  readonly publishableKey: string
  readonly origin: string
}

/** The page after a sign-up: the sandbox's keys, which are shown once. */
export const welcomePage = ({ business, secretKey, publishableKey, origin }: WelcomeView): string =>
  frontDoor(
    `Welcome, ${business}`,
    html`<div class="stack"><h1>Welcome, ${business}</h1>
<p>These are the keys of your sandbox, where no money moves. The secret key is shown only now: keep it in your server's settings.</p>
<div class="card stack"><h2>Secret key</h2><p class="secret"><code id="secret-key">${secretKey}</code></p><p><button type="button" class="plain" data-copy="#secret-key" hidden="${true}">Copy</button></p>
<h2>Publishable key, for browsers</h2><p class="secret"><code>${publishableKey}</code></p></div>
<h2>Your first call</h2>
<pre tabindex="0"><code>curl ${origin}/sandbox/v1/customers \\
  -H "Authorization: Bearer ${secretKey}" \\
  -H "Content-Type: application/json" \\
  -d '{"name": "Ada Obi", "email": "ada@example.com"}'</code></pre>
<p><a class="act main" href="/dashboard/sandbox">Open the dashboard</a></p></div>`,
  )

export interface InvitationView {
  readonly business: string
  readonly email: string
  readonly role: string
  readonly action: string
  readonly formToken: string
}

/** Following the link changes nothing: mail programs open links. The button does. */
export const invitationPage = ({ business, email, role, action, formToken }: InvitationView): string =>
  frontDoor(
    `Join ${business}`,
    html`<div class="stack"><h1>Join ${business}</h1>
<p>${email} is invited to the account of ${business}, as <strong>${role}</strong>.</p>
<form method="post" action="${action}" class="card">${hiddenField("form_token", formToken)}<button class="button">Join</button></form></div>`,
  )

/** The page of a link that signs in once. */
export const linkPage = (action: string, formToken: string): string =>
  frontDoor(
    "Sign in",
    html`<div class="stack"><h1>Sign in</h1>
<p>This link signs you in, once.</p>
<form method="post" action="${action}" class="card">${hiddenField("form_token", formToken)}<button class="button">Sign in</button></form></div>`,
  )

/** A message without a session, such as that a link is not valid any more. */
export const frontMessage = (title: string, text: string): string =>
  frontDoor(
    title,
    html`<div class="stack"><h1>${title}</h1><p>${text}</p><p><a href="/dashboard/sign-in">Sign in</a></p></div>`,
  )
