/** Signing up, in and out (decisions R3, R4, R5): pages without a session, and the sessions that they start. */
import { Effect } from "effect"
import { Cell } from "../base/cell.ts"
import { isProblem, type Problem } from "../base/problem.ts"
import { Origin } from "../http/Origin.ts"
import type { PublicRequest, PublicResponse } from "../http/publicRoutes.ts"
import type { Letter } from "../merchants/account/letters.ts"
import { endSession, findSession, type Method, startSession, switchAccount } from "../merchants/member/sessions.ts"
import { recordSignIn } from "../merchants/member/signInActivity.ts"
import {
  acceptInvitation,
  CODE_MINUTES,
  findInvitation,
  finishCode,
  finishLink,
  openSignIn,
  sendCode,
} from "../merchants/member/signIns.ts"
import { isToken, newToken } from "../merchants/member/tokens.ts"
import { NOTHING_TYPED, NOTHING_WRONG, type Wrong } from "../pages/dashboard/fields.ts"
import {
  codePage,
  type FormView,
  frontMessage,
  invitationPage,
  linkPage,
  signInPage,
  signUpPage,
  welcomePage,
} from "../pages/dashboard/signIn.ts"
import { clearSession, readCookie, setSession, setVisitor } from "./cookies.ts"
import { DashboardSettings } from "./DashboardSettings.ts"
import { type Form, formTokenOf, readForm } from "./forms.ts"
import { document, goTo, localPath, memberPage, visitorPage, withNotice } from "./pages.ts"

/** An address as people type it, in the form that is stored; undefined: it is none. */
export const readEmail = (typed: string): string | undefined => {
  const email = typed.trim().toLowerCase()
  return email.length <= 254 && /^[^\s@<>"(),:;\\[\]]+@[^\s@<>"(),:;\\[\]]+\.[^\s@<>"(),:;\\[\]]+$/.test(email)
    ? email
    : undefined
}

/** The browser's cookie, with the header that sets it. A new one if there is none of this cell: a proxy selects the cell by it. */
const visitorOf = Effect.fnUntraced(function* (request: PublicRequest) {
  const { url: origin } = yield* Origin
  const sent = readCookie(request.headers, "visitor", origin)
  const isOfCell = sent !== undefined && isToken(sent) && sent.startsWith(yield* Cell)
  const visitor = isOfCell ? sent : yield* newToken
  return { visitor, origin, formToken: formTokenOf(visitor), cookie: setVisitor(visitor, origin) }
})

/** Shows a page to a visitor, and renews the cookie. */
const showTo = (text: string, cookie: string, status = 200): PublicResponse => {
  const page = document(status, text)
  return { ...page, headers: { ...page.headers, "set-cookie": cookie } }
}

const formView = (
  formToken: string,
  form?: Form,
  wrong: Wrong = NOTHING_WRONG,
  refusal: string | null = null,
): FormView => ({
  typed: form?.typed ?? NOTHING_TYPED,
  wrong,
  refusal,
  formToken,
})

/** How many letters are kept for pages in development. */
const MAX_LETTERS = 100

const keepLetter = Effect.fnUntraced(function* (visitor: string, letter: Letter) {
  const { letters } = yield* DashboardSettings
  if (letters === null) return
  if (letters.size >= MAX_LETTERS) letters.clear()
  letters.set(visitor, letter)
  yield* Effect.logInfo(`development: a letter with the subject "${letter.subject}"`)
})

const codePath = (next: string): string => `/dashboard/sign-in/code?next=${encodeURIComponent(next)}`

/** Sends a code for a form. On a refusal, shows the form again. */
const sendFor = Effect.fnUntraced(function* (
  request: PublicRequest,
  form: Form,
  businessName: string | null,
  again: (view: FormView) => string,
) {
  const { visitor, origin, formToken, cookie } = yield* visitorOf(request)
  const wrong = new Map<string, string>()
  const email = readEmail(form.get("email"))
  if (email === undefined) wrong.set("email", "Type an e-mail address such as ada@example.com.")
  if (businessName !== null && (businessName === "" || businessName.length > 120))
    wrong.set("business_name", "Type the name of the business, at most 120 characters.")
  if (email === undefined || wrong.size > 0) return showTo(again(formView(formToken, form, wrong)), cookie, 400)
  const other = `${origin}/dashboard/${businessName === null ? "sign-up" : "sign-in"}`
  const sending = sendCode({ visitor, network: request.address }, email, businessName, other)
  return yield* sending.pipe(
    Effect.tap((letter) => keepLetter(visitor, letter)),
    Effect.map(() => goTo(codePath(localPath(form.get("next"))), cookie)),
    Effect.catchTag("Problem", (refusal: Problem) =>
      Effect.succeed(showTo(again(formView(formToken, form, wrong, refusal.message)), cookie, refusal.status)),
    ),
  )
})

const signUp = visitorPage("/dashboard/sign-up", {
  GET: Effect.fnUntraced(function* (request) {
    const { formToken, cookie } = yield* visitorOf(request)
    return showTo(signUpPage(formView(formToken)), cookie)
  }),
  POST: Effect.fnUntraced(function* (request) {
    const { formToken, origin } = yield* visitorOf(request)
    const form = yield* readForm(request, origin, formToken)
    return yield* sendFor(request, form, form.get("business_name"), signUpPage)
  }),
})

const signIn = visitorPage("/dashboard/sign-in", {
  GET: Effect.fnUntraced(function* (request) {
    const { formToken, cookie, origin } = yield* visitorOf(request)
    const isAgain = request.search.get("again") === "true"
    const session = readCookie(request.headers, "session", origin)
    const current = session === undefined ? undefined : yield* findSession(session)
    const next = localPath(request.search.get("next"))
    if (current !== undefined && !isAgain) return goTo(next)
    const typed = current === undefined ? NOTHING_TYPED : new Map([["email", [current.email]]])
    return showTo(signInPage({ ...formView(formToken), typed, next, isAgain }), cookie)
  }),
  POST: Effect.fnUntraced(function* (request) {
    const { formToken, origin } = yield* visitorOf(request)
    const form = yield* readForm(request, origin, formToken)
    const next = localPath(form.get("next"))
    return yield* sendFor(request, form, null, (view) => signInPage({ ...view, next, isAgain: false }))
  }),
})

/** Starts a session of a person whose address is proved. */
export const enter = Effect.fnUntraced(function* (
  request: PublicRequest,
  email: string,
  method: Method,
  account?: string,
) {
  const { url: origin } = yield* Origin
  const former = readCookie(request.headers, "session", origin)
  const from = { network: request.address, browser: String(request.headers["user-agent"] ?? "") }
  // A sign-in that confirms a running session keeps its account.
  const current = former === undefined ? undefined : yield* findSession(former)
  const shown = account ?? (current?.email === email ? current.account_id : undefined)
  const started = yield* startSession(email, method, from, former, shown)
  if (started === undefined) return undefined
  yield* recordSignIn(started, email, method, request)
  return { ...started, header: setSession(started.cookie, origin) }
})

const NO_MEMBER = frontMessage(
  "You belong to no account",
  "This address is a member of no account any more. Ask an owner of the account to invite you again, or sign up.",
)

/** Enters and redirects; shows a message to a person who belongs to no account. */
const enterAndGo = Effect.fnUntraced(function* (
  request: PublicRequest,
  email: string,
  method: Method,
  next: string,
  account?: string,
) {
  const entered = yield* enter(request, email, method, account)
  return entered === undefined ? document(403, NO_MEMBER) : goTo(next, entered.header)
})

const showCode = Effect.fnUntraced(function* (
  request: PublicRequest,
  next: string,
  view: Omit<FormView, "formToken">,
  status = 200,
) {
  const { visitor, formToken, cookie } = yield* visitorOf(request)
  const open = yield* openSignIn(visitor)
  if (open === undefined) return goTo("/dashboard/sign-in", cookie)
  const { letters } = yield* DashboardSettings
  const { email, purpose } = open
  const letter = letters?.get(visitor) ?? null
  const isSignUp = purpose === "sign_up"
  return showTo(codePage({ ...view, formToken, email, isSignUp, next, minutes: CODE_MINUTES, letter }), cookie, status)
})

const code = visitorPage("/dashboard/sign-in/code", {
  GET: (request) => showCode(request, localPath(request.search.get("next")), formView("")),
  POST: Effect.fnUntraced(function* (request) {
    const { visitor, formToken, origin } = yield* visitorOf(request)
    const form = yield* readForm(request, origin, formToken)
    const next = localPath(form.get("next"))
    const finishing = Effect.gen(function* () {
      const { email, made } = yield* finishCode(visitor, form.get("code").replaceAll(/\D/g, ""))
      if (made === undefined) return yield* enterAndGo(request, email, "code", next)
      const { account, keys } = made
      const entered = yield* enter(request, email, "code", account.id)
      const { business_name: business } = account
      return showTo(
        welcomePage({ business, secretKey: keys.sk_test, publishableKey: keys.pk_test, origin }),
        entered!.header,
        201,
      )
    })
    return yield* Effect.catchIf(finishing, isProblem, ({ message, status }) =>
      showCode(request, next, formView("", form, new Map([["code", message]])), status),
    )
  }),
})

const NOT_VALID = "This link is not valid any more"

const invitation = visitorPage("/dashboard/invitations/:token", {
  GET: Effect.fnUntraced(function* (request, { token }) {
    const { formToken, cookie } = yield* visitorOf(request)
    const found = isToken(token!) ? yield* findInvitation(token!) : undefined
    if (found === undefined)
      return document(
        404,
        frontMessage(NOT_VALID, "The invitation was used already, or it has expired. Ask for a new one."),
      )
    const { business_name: business, email, role } = found
    return showTo(
      invitationPage({ business, email, role, action: `/dashboard/invitations/${token}`, formToken }),
      cookie,
    )
  }),
  POST: Effect.fnUntraced(function* (request, { token }) {
    const { formToken, origin } = yield* visitorOf(request)
    yield* readForm(request, origin, formToken)
    const joining = Effect.gen(function* () {
      const { account_id, email } = yield* acceptInvitation(token!)
      return yield* enterAndGo(request, email, "link", withNotice("/dashboard", "welcome"), account_id)
    })
    return yield* Effect.catchIf(joining, isProblem, ({ message, status }) =>
      Effect.succeed(document(status, frontMessage(NOT_VALID, message))),
    )
  }),
})

const link = visitorPage("/dashboard/links/:token", {
  GET: Effect.fnUntraced(function* (request, { token }) {
    const { formToken, cookie } = yield* visitorOf(request)
    return showTo(linkPage(`/dashboard/links/${encodeURIComponent(token!)}`, formToken), cookie)
  }),
  POST: Effect.fnUntraced(function* (request, { token }) {
    const { formToken, origin } = yield* visitorOf(request)
    yield* readForm(request, origin, formToken)
    const finishing = Effect.flatMap(finishLink(token!), (email) =>
      enterAndGo(request, email, "link", withNotice("/dashboard", "welcome")),
    )
    return yield* Effect.catchIf(finishing, isProblem, ({ message, status }) =>
      Effect.succeed(document(status, frontMessage(NOT_VALID, message))),
    )
  }),
})

const signOut = memberPage(
  "/dashboard/sign-out",
  { right: "see" },
  {
    POST: ({ cookie, origin }) => Effect.as(endSession(cookie), goTo("/dashboard/sign-in", clearSession(origin))),
  },
)

const switching = memberPage(
  "/dashboard/switch",
  { right: "see" },
  {
    POST: ({ session }, form) =>
      Effect.map(switchAccount(session, form.get("account")), (isMember) =>
        goTo(isMember ? withNotice("/dashboard", "switched") : "/dashboard"),
      ),
  },
)

const start = memberPage(
  "/dashboard",
  { right: "see" },
  {
    GET: ({ base, search }) => {
      const name = search.get("notice")
      return Effect.succeed(goTo(name === null ? base : withNotice(base, encodeURIComponent(name))))
    },
  },
)

export const signInRoutes = [start, signUp, signIn, code, invitation, link, signOut, switching]
