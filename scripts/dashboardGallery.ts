/** States of the dashboard's pages that only few accounts show, with invented data: for the screenshots and for tests of pages. */
import { DAY_MS, HOUR_MS } from "../src/base/time.ts"
import { liveAccessMain, type MeView, meMain } from "../src/pages/dashboard/account.ts"
import { type ActionView, actionMain } from "../src/pages/dashboard/action.ts"
import { type Field, NOTHING_TYPED, NOTHING_WRONG } from "../src/pages/dashboard/fields.ts"
import { type Frame, frame } from "../src/pages/dashboard/frame.ts"
import { type ListView, listMain } from "../src/pages/dashboard/list.ts"
import { notice, pageHead, status, when } from "../src/pages/dashboard/parts.ts"
import { NO_CHANGES } from "../src/pages/dashboard/review.ts"
import {
  type CodeView,
  codePage,
  type FormView,
  frontMessage,
  invitationPage,
  linkPage,
  signInPage,
  signUpPage,
  welcomePage,
} from "../src/pages/dashboard/signIn.ts"
import { type MemberView, memberMain, type TeamView, teamMain } from "../src/pages/dashboard/team.ts"
import { type Html, html } from "../src/pages/html.ts"

/** 10:00 in Lagos. */
const NOW = Date.UTC(2027, 2, 3, 9)
const FORM_TOKEN = "mY0uIfM2Vb1m3aXh0lq7n5s8t2w4z6c9e1g3j5k7p0"

const FRAME: Frame = {
  environment: "sandbox",
  isOfAccount: false,
  business: "Mama Chidi Kitchen",
  vertical: "generic",
  email: "chidi@kitchen.example",
  role: "owner",
  isLiveApproved: false,
  account: "acct_01m7yyp0a6e08v7r97jkyz1pj0",
  accounts: [{ account: "acct_01m7yyp0a6e08v7r97jkyz1pj0", business: "Mama Chidi Kitchen" }],
  path: "/dashboard/sandbox",
  notice: null,
  formToken: FORM_TOKEN,
}

/** A page of the environment, or of the account, within the frame. */
export const framed = (path: string, title: string, main: Html, over: Partial<Frame> = {}): string =>
  frame({ ...FRAME, path, isOfAccount: !/^\/dashboard\/(live|sandbox)/.test(path), ...over }, title, main)

const FORM: FormView = { typed: NOTHING_TYPED, wrong: NOTHING_WRONG, refusal: null, formToken: FORM_TOKEN }
const WRONG_EMAIL = new Map([["email", "Type an e-mail address such as ada@example.com."]])
const TOO_MANY = "Too many codes were asked for. Try again in an hour, or sign in with a passkey."

const CODE: CodeView = {
  ...FORM,
  email: "chidi@kitchen.example",
  isSignUp: false,
  next: "/dashboard",
  minutes: 10,
  letter: null,
}
const LETTER = {
  subject: "482913 is your code",
  body: "Your code is 482913.\n\nIt is valid for 10 minutes, on the page where you asked for it. We never ask for it by phone or in a message. If you did not ask for it, ignore this letter.",
}

const front = (): ReadonlyArray<readonly [string, string]> => [
  ["sign-up", signUpPage(FORM)],
  [
    "sign-up-wrong",
    signUpPage({
      ...FORM,
      typed: new Map([["email", ["chidi@"]]]),
      wrong: new Map([["business_name", "Type the name of the business, at most 120 characters."], ...WRONG_EMAIL]),
    }),
  ],
  ["sign-in", signInPage({ ...FORM, next: "/dashboard", isAgain: false })],
  [
    "sign-in-again",
    signInPage({ ...FORM, typed: new Map([["email", [FRAME.email]]]), next: "/dashboard", isAgain: true }),
  ],
  ["sign-in-limit", signInPage({ ...FORM, next: "/dashboard", isAgain: false, refusal: TOO_MANY })],
  ["code", codePage(CODE)],
  ["code-development", codePage({ ...CODE, isSignUp: true, letter: LETTER })],
  [
    "code-wrong",
    codePage({
      ...CODE,
      wrong: new Map([
        [
          "code",
          "This code is wrong, or it is not valid any more: a code is valid for 10 minutes and 5 tries. Ask for a new one.",
        ],
      ]),
    }),
  ],
  [
    "welcome",
    welcomePage({
      business: FRAME.business,
      secretKey: "sk_test_7Jx0m4Qe1s8V2nB5kD9fT3wZ6yC0hRuL",
      publishableKey: "pk_test_7Jx0m4Qe1s8V2nB5kD9fT3wZ6yC0hRuL",
      origin: "https://billing.example",
    }),
  ],
  [
    "invitation",
    invitationPage({
      business: FRAME.business,
      email: "ngozi@kitchen.example",
      role: "finance",
      action: "/dashboard/invitations/x",
      formToken: FORM_TOKEN,
    }),
  ],
  ["link", linkPage("/dashboard/links/x", FORM_TOKEN)],
  [
    "link-ended",
    frontMessage(
      "This link is not valid any more",
      "The invitation was used already, or it has expired. Ask for a new one.",
    ),
  ],
]

const MEMBERS: ReadonlyArray<MemberView> = [
  { id: "mem_1", email: FRAME.email, role: "owner", joinedAt: NOW - 90 * DAY_MS, invitedUntil: null, isYou: true },
  {
    id: "mem_2",
    email: "ngozi@kitchen.example",
    role: "finance",
    joinedAt: NOW - DAY_MS,
    invitedUntil: null,
    isYou: false,
  },
  {
    id: "mem_3",
    email: "oluwaseun.adebayo-ogunbanjo@a-very-long-name-of-a-company.example",
    role: "developer",
    joinedAt: null,
    invitedUntil: NOW + 6 * DAY_MS,
    isYou: false,
  },
]
const TEAM: TeamView = {
  ...FORM,
  typed: new Map([["role", ["support"]]]),
  members: MEMBERS,
  invitationLink: null,
  pages: { first: null, next: null, csv: null },
}

const ME: MeView = {
  email: FRAME.email,
  role: "owner",
  formToken: FORM_TOKEN,
  noPasskeys: null,
  sessions: [
    {
      id: "dsh_1",
      browser: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/146.0.0.0 Safari/537.36",
      network: "102.89.33.7",
      method: "code",
      signedInAt: NOW - HOUR_MS,
      lastUsedAt: NOW,
      isThis: true,
    },
    {
      id: "dsh_2",
      browser: "",
      network: "2c0f:f5c0:1:2::/64",
      method: "passkey",
      signedInAt: NOW - 3 * DAY_MS,
      lastUsedAt: NOW - HOUR_MS,
      isThis: false,
    },
  ],
  passkeys: [{ id: "psk_1", name: "My phone", createdAt: NOW - 30 * DAY_MS, lastUsedAt: NOW - 3 * DAY_MS }],
}

const NO_PAGES = { first: null, next: null, csv: null }

const account = (): ReadonlyArray<readonly [string, string]> => [
  ["team", framed("/dashboard/team", "Team", teamMain(TEAM), { notice: "The invitation was sent." })],
  [
    "team-invited",
    framed(
      "/dashboard/team",
      "Team",
      teamMain({
        ...TEAM,
        invitationLink: "https://billing.example/dashboard/invitations/mY0uIfM2Vb1m3aXh0lq7n5s8t2w4z6c9e1g3j5k7p0A",
      }),
    ),
  ],
  [
    "team-wrong",
    framed(
      "/dashboard/team",
      "Team",
      teamMain({ ...TEAM, typed: new Map([["email", ["ngozi@"]]]), wrong: WRONG_EMAIL }),
    ),
  ],
  [
    "member",
    framed(
      "/dashboard/team/mem_2",
      MEMBERS[1]!.email,
      memberMain({ ...MEMBERS[1]!, refusal: null, formToken: FORM_TOKEN }),
    ),
  ],
  [
    "member-refused",
    framed(
      "/dashboard/team/mem_1",
      FRAME.email,
      memberMain({
        ...MEMBERS[0]!,
        refusal: "An account needs an owner: make another member an owner first.",
        formToken: FORM_TOKEN,
      }),
    ),
  ],
  [
    "live-access-pending",
    framed(
      "/dashboard/live-access",
      "Live access",
      liveAccessMain({ liveAccess: "pending_review", formToken: FORM_TOKEN }),
    ),
  ],
  ["me", framed("/dashboard/me", "You", meMain(ME))],
  ["me-support", framed("/dashboard/me", "You", meMain({ ...ME, role: "support", passkeys: [] }), { role: "support" })],
]

interface Row {
  readonly name: string
  readonly email: string
  readonly at: number
}
const LIST: ListView<Row> = {
  title: "Customers",
  about: null,
  actions: [{ href: "/dashboard/sandbox/customers/new", label: "New customer", isMain: true }],
  path: "/dashboard/sandbox/customers",
  filters: [
    { name: "email", label: "E-mail", kind: "text" },
    { name: "phone", label: "Phone", kind: "text" },
  ],
  typed: NOTHING_TYPED,
  columns: [
    { name: "Name", cell: ({ name }) => html`<a href="/dashboard/sandbox/customers/x">${name}</a>` },
    { name: "E-mail", cell: ({ email }) => email },
    { name: "Status", cell: () => status("active") },
    { name: "Since", cell: ({ at }) => when(at) },
  ],
  rows: Array.from({ length: 8 }, (_, n) => ({
    name: n === 0 ? "Oluwaseun Adebayo-Ogunbanjo & Daughters Catering Limited" : `Ada Obi ${n}`,
    email: `ada-${n}@example.com`,
    at: NOW - n * DAY_MS,
  })),
  empty: {
    title: "No customers yet",
    text: "A customer is a person or a business that you charge. Create one here, by the API, or let buyers do it themselves at a checkout.",
    action: { href: "/dashboard/sandbox/customers/new", label: "New customer", isMain: true },
  },
  pages: {
    first: null,
    next: "/dashboard/sandbox/customers?starting_after=x",
    csv: "/dashboard/sandbox/customers.csv",
  },
}
const list = (over: Partial<ListView<Row>> = {}, frame: Partial<Frame> = {}): string =>
  framed(LIST.path, LIST.title, listMain({ ...LIST, ...over }), frame)

const FIELDS: ReadonlyArray<Field> = [
  { name: "name", label: "Name", kind: "text", isRequired: true },
  { name: "phone", label: "Phone", kind: "tel", hint: "With the country, such as +2348031234567" },
  { name: "amount", label: "Amount", kind: "naira", isRequired: true },
  { name: "notify", label: "Tell the customer", kind: "checkbox" },
  { name: "metadata", label: "Metadata", kind: "lines", hint: "One key=value in each line" },
]
const ACTION: ActionView = {
  title: "Charge Ada Obi",
  about: "It is charged now, with the customer's payment method.",
  path: "/dashboard/sandbox/charges/new",
  backTo: "/dashboard/sandbox/customers/x",
  fields: FIELDS,
  typed: new Map([
    ["name", ["Ada Obi"]],
    ["amount", ["5,000.00"]],
  ]),
  wrong: NOTHING_WRONG,
  refusal: null,
  button: "Charge",
  isDanger: false,
  formToken: FORM_TOKEN,
  attempt: "a1",
  hasReview: true,
  review: null,
  hasChanged: false,
}
const REVIEW = {
  reviewed: "r1",
  changes: {
    ...NO_CHANGES,
    charges: [{ amount: 500_000, status: "succeeded", description: "Lunch box", failure_message: null }],
    events: [{ type: "charge.succeeded" }],
    nudges: [{ template: "payment_receipt", channel: "whatsapp", at: "2027-03-03T09:00:00.000Z" }],
    timers: [{ name: "periodEnd", at: "2027-04-03T09:00:00.000Z" }],
    ledger_entries: [
      {
        kind: "charge_paid",
        lines: [
          { account: "clearing", debit: 500_000, credit: 0 },
          { account: "deferred_revenue", debit: 0, credit: 500_000 },
        ],
      },
    ],
  },
}
const action = (over: Partial<ActionView> = {}): string =>
  framed(ACTION.path, ACTION.title, actionMain({ ...ACTION, ...over }))

const refusal = (title: string, text: string): Html =>
  html`${pageHead(title)}${notice("warning", html`<p>${text}</p>`)}<p class="quiet small">Request req_01m7yyp0a6e08v7r97jkyz1pj0. <a href="/dashboard/sandbox">Home</a></p>`

const objects = (): ReadonlyArray<readonly [string, string]> => [
  ["customers", list()],
  ["customers-nothing", list({ rows: [], typed: new Map([["email", ["x@example.com"]]]), pages: NO_PAGES })],
  [
    "customers-live",
    list(
      {},
      {
        environment: "live",
        path: "/dashboard/live/customers",
        role: "support",
        accounts: [...FRAME.accounts, { account: "acct_2", business: "Gas & Co" }],
      },
    ),
  ],
  ["action-wrong", action({ wrong: new Map([["amount", "Type an amount in naira, such as 2,500.00."]]) })],
  ["action-refused", action({ refusal: "This customer has no payment method.", isDanger: true })],
  ["action-review", action({ review: REVIEW })],
  ["action-changed", action({ review: REVIEW, hasChanged: true, isDanger: true })],
  [
    "refused-role",
    framed(
      "/dashboard/team",
      "Your role does not include this",
      refusal(
        "Your role does not include this",
        "Your role (support) does not include the profile, the team, live access and the business type: ask an owner or an admin of the account.",
      ),
      { role: "support" },
    ),
  ],
]

/** All pages of the dashboard, by the state that they show. */
export const dashboardGallery = (): ReadonlyMap<string, string> =>
  new Map([...front(), ...account(), ...objects()].map(([name, page]) => [`dashboard-${name}`, page]))
