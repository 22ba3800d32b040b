/** Renders the pages of the account: its profile, live access and activity, and the member's own page. */
import type { LiveAccess } from "../../../machines/live_access.ts"
import { ROLE_SUMMARIES, type Role } from "../../security/role/rights.ts"
import { type Html, html } from "../html.ts"
import { errorSummary, type Field, fieldRow, hiddenField, type Typed, type Wrong } from "./fields.ts"
import { empty, facts, notice, type Pages, pageHead, pager, section, status, table, when, words } from "./parts.ts"

/** A form of a page: what was typed, what is wrong with it, and the secret that it contains. */
export interface DashboardForm {
  readonly typed: Typed
  readonly wrong: Wrong
  readonly refusal: string | null
  readonly formToken: string
}

export interface AccountView extends DashboardForm {
  readonly id: string
  readonly apiPlan: string
  readonly liveAccess: LiveAccess
  readonly createdAt: number
  readonly verticals: ReadonlyArray<string>
  readonly vertical: string | null
  /** Whether the business type can still be chosen. */
  readonly canChooseVertical: boolean
  /** The rail of live payments; null: the member may not change it. */
  readonly rail: string | null
}

const PROFILE_FIELDS: ReadonlyArray<Field> = [
  {
    name: "business_name",
    label: "Business name",
    kind: "text",
    hint: "Customers see it on pages, in letters and in messages.",
    isRequired: true,
    maxlength: 120,
  },
]

const verticalField = (verticals: ReadonlyArray<string>): Field => ({
  name: "vertical",
  label: "Business type",
  kind: "select",
  isRequired: true,
  choices: verticals.map((value) => ({ value, label: words(value) })),
})

export const accountMain = (view: AccountView): Html => {
  const vertical = verticalField(view.verticals)
  return html`${pageHead("Account")}${facts([
    ["Account", html`<code>${view.id}</code>`],
    ["API plan", view.apiPlan],
    ["Live access", html`<a href="/dashboard/live-access">${words(view.liveAccess)}</a>`],
    ["Business type", view.vertical === null ? "not chosen yet" : words(view.vertical)],
    ["Since", when(view.createdAt)],
  ])}
${section(
  "Profile",
  html`<form method="post" action="/dashboard/account" class="card form">${errorSummary(PROFILE_FIELDS, view.wrong, view.refusal)}${hiddenField("form_token", view.formToken)}${PROFILE_FIELDS.map(
    (field) => fieldRow(field, view.typed, view.wrong),
  )}<button class="button">Save</button></form>
`,
)}${
  view.canChooseVertical &&
  section(
    "Business type",
    html`<form method="post" action="/dashboard/account/vertical" class="card form">${hiddenField("form_token", view.formToken)}${fieldRow(vertical, view.typed, view.wrong)}<p class="hint">It decides which pages you have. After live access is approved it can be chosen once.</p><button class="button">Save</button></form>
`,
  )
}${
  view.rail !== null &&
  section(
    "Payment rail",
    html`<p>Live payments go by <strong>${view.rail}</strong>. <a href="/dashboard/account/rail">Switch the rail or replace its credentials</a></p>`,
  )
}`
}

export interface LiveAccessView {
  readonly liveAccess: LiveAccess
  readonly formToken: string
}

const LIVE_ACCESS_TEXTS: Readonly<Record<LiveAccess, string>> = {
  not_requested: "Everything works in the sandbox. To take money, ask for live access: we check your business first.",
  pending_review:
    "You have asked for live access. We are checking your business, and write to the owners when it is done.",
  approved: "Live is switched on: make a live key, and the same requests take money.",
  rejected: "Live access was refused. Once you have changed what we asked you to change, ask again.",
  suspended: "Live access is suspended: nothing is charged. Contact us.",
}

export const liveAccessMain = ({ liveAccess, formToken }: LiveAccessView): Html =>
  html`${pageHead("Live access", status(liveAccess))}<p>${LIVE_ACCESS_TEXTS[liveAccess]}</p>${
    (liveAccess === "not_requested" || liveAccess === "rejected") &&
    html`<form method="post" action="/dashboard/live-access" class="form">${hiddenField("form_token", formToken)}<button class="button">Ask for live access</button></form>`
  }${liveAccess === "approved" && html`<p><a class="act main" href="/dashboard/live/keys">API keys</a></p>`}`

export interface ActivityView {
  readonly rows: ReadonlyArray<{
    readonly id: string
    readonly at: number
    readonly environment: "live" | "sandbox"
    readonly who: string
    readonly action: string
    readonly objectId: string | null
    readonly objectPath: string | null
    readonly address: string | null
    readonly requestId: string | null
    /** The page of the request; null: it is not in the log of API requests. */
    readonly requestPath: string | null
  }>
  readonly pages: Pages
}

export const activityMain = ({ rows, pages }: ActivityView): Html =>
  html`${pageHead("Activity", "Who did what, in both environments. Nothing is ever removed from it.")}${
    rows.length === 0
      ? empty("Nothing happened yet", "Changes by members, keys and the service appear here.")
      : html`${table(
          "Activity",
          [
            { name: "When", cell: ({ at }: ActivityView["rows"][number]) => when(at) },
            {
              name: "Who",
              cell: ({ who, address }) =>
                html`${who}${address !== null && html`<br><span class="small quiet">from ${address}</span>`}`,
            },
            { name: "What", cell: ({ action }) => html`<code>${action}</code>` },
            {
              name: "Object",
              cell: ({ objectId, objectPath }) =>
                objectPath === null ? (objectId ?? "–") : html`<a href="${objectPath}">${objectId}</a>`,
            },
            { name: "Where", cell: ({ environment }) => environment },
            {
              name: "Request",
              cell: ({ requestId, requestPath }) =>
                requestPath === null
                  ? html`<code class="small whole">${requestId ?? "–"}</code>`
                  : html`<a href="${requestPath}"><span class="unseen">${requestId} </span>request</a>`,
            },
          ],
          rows,
        )}${pager(pages)}`
  }`

export interface MeView {
  readonly email: string
  readonly role: Role
  readonly formToken: string
  readonly sessions: ReadonlyArray<{
    readonly id: string
    readonly browser: string
    readonly network: string
    readonly method: string
    readonly signedInAt: number
    readonly lastUsedAt: number
    readonly isThis: boolean
  }>
  readonly passkeys: ReadonlyArray<{
    readonly id: string
    readonly name: string
    readonly createdAt: number
    readonly lastUsedAt: number | null
  }>
  /** Why no passkey can be added here; null: one can. */
  readonly noPasskeys: string | null
}

const BROWSERS: ReadonlyArray<readonly [pattern: RegExp, name: string]> = [
  [/\bEdg\w*\/(\d+)/, "Edge"],
  [/\bOPR\/(\d+)/, "Opera"],
  [/\bFirefox\/(\d+)/, "Firefox"],
  [/\bChrome\/(\d+)/, "Chrome"],
  [/\bVersion\/(\d+).* Safari\//, "Safari"],
]
const SYSTEMS: ReadonlyArray<readonly [pattern: RegExp, name: string]> = [
  [/\bAndroid\b/, "Android"],
  [/\b(?:iPhone|iPad)\b/, "iOS"],
  [/\bWindows\b/, "Windows"],
  [/\bMac OS X\b/, "macOS"],
  [/\bLinux\b/, "Linux"],
]

/** A browser by its header User-Agent, such as "Chrome 146 on Android"; the header itself if it is unusual. */
const browserText = (userAgent: string): string => {
  const browser = BROWSERS.find(([pattern]) => pattern.test(userAgent))
  const system = SYSTEMS.find(([pattern]) => pattern.test(userAgent))
  if (browser === undefined) return userAgent === "" ? "unknown" : userAgent
  const version = browser[0].exec(userAgent)![1]!
  return `${browser[1]} ${version}${system === undefined ? "" : ` on ${system[1]}`}`
}

const PASSKEY_FIELD: Field = {
  name: "name",
  label: "Name of the passkey",
  kind: "text",
  hint: "Such as: my phone",
  isRequired: true,
  maxlength: 100,
}

export const meMain = ({ email, role, formToken, sessions, passkeys, noPasskeys }: MeView): Html => {
  const end = (action: string, label: string) =>
    html`<form method="post" action="${action}" class="inline-form">${hiddenField("form_token", formToken)}<button class="plain">${label}</button></form>`
  return html`${pageHead("You")}${facts([
    ["E-mail", email],
    ["Role", html`${role}: ${ROLE_SUMMARIES[role]}`],
  ])}
${section(
  "Passkeys",
  html`${
    passkeys.length > 0 &&
    table(
      "Passkeys",
      [
        { name: "Passkey", cell: ({ name }: MeView["passkeys"][number]) => name },
        { name: "Added", cell: ({ createdAt }) => when(createdAt) },
        { name: "Last used", cell: ({ lastUsedAt }) => when(lastUsedAt) },
        { name: "Change", cell: ({ id }) => end(`/dashboard/me/passkeys/${id}/remove`, "Remove") },
      ],
      passkeys,
    )
  }<p class="quiet lead">With a passkey you sign in with your fingerprint, your face or your device's code, without a letter.</p>${
    noPasskeys === null
      ? html`<form method="post" action="/dashboard/me/passkeys" class="card form" data-passkey="register" hidden="${true}">${hiddenField("form_token", formToken)}${fieldRow(PASSKEY_FIELD, new Map(), new Map())}<button class="button">Add a passkey</button><p role="status" class="wrong"></p></form>
<noscript><p>Passkeys need a browser that runs scripts.</p></noscript>`
      : notice("note", noPasskeys)
  }`,
)}
${section(
  "Where you are signed in",
  table(
    "Sessions",
    [
      {
        name: "Browser",
        cell: ({ browser, isThis }: MeView["sessions"][number]) =>
          html`${browserText(browser)}${isThis && html` <span class="status good">this one</span>`}`,
      },
      { name: "Network", cell: ({ network }) => network },
      { name: "Signed in", cell: ({ signedInAt, method }) => html`${when(signedInAt)}, by ${method}` },
      { name: "Last used", cell: ({ lastUsedAt }) => when(lastUsedAt) },
      { name: "Change", cell: ({ id }) => end(`/dashboard/me/sessions/${id}/end`, "End the session") },
    ],
    sessions,
  ),
)}`
}
