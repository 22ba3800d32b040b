/** Renders the document around every page of the dashboard: navigation, account, environment, notices. */
import { may, type Right, type Role } from "../../security/role/rights.ts"
import { type Html, html } from "../html.ts"
import { ASSET_ELEMENTS } from "./assets.ts"
import { hiddenField } from "./fields.ts"

export type Environment = "live" | "sandbox"

/** What the frame shows: who is signed in, where, and what was just done. */
export interface Frame {
  /** The environment of the page; for a page of the account, the one that its links lead to. */
  readonly environment: Environment
  /** Whether the page belongs to the account and not to one environment. */
  readonly isOfAccount: boolean
  readonly business: string
  readonly vertical: string | null
  readonly email: string
  readonly role: Role
  readonly isLiveApproved: boolean
  readonly account: string
  /** All accounts of the person. */
  readonly accounts: ReadonlyArray<{ readonly account: string; readonly business: string }>
  /** The path of the page, without the query. */
  readonly path: string
  /** What was just done, in words; null: nothing. */
  readonly notice: string | null
  /** The secret of forms that belong to this session and account. */
  readonly formToken: string
}

interface Item {
  readonly path: string
  readonly name: string
  readonly right: Right
  readonly only?: "sandbox" | "ecommerce"
}

/** Pages that belong to the section of another path. */
const SECTIONS: Readonly<Record<string, string>> = { "/dashboard/sandbox/reset": "/dashboard/sandbox/clocks" }

interface Group {
  readonly name: string | null
  readonly items: ReadonlyArray<Item>
}

/** The navigation of an environment. Paths follow `/dashboard/{environment}`. */
const GROUPS: ReadonlyArray<Group> = [
  { name: null, items: [{ path: "", name: "Home", right: "see" }] },
  {
    name: "Billing",
    items: [
      { path: "/customers", name: "Customers", right: "see" },
      { path: "/subscriptions", name: "Subscriptions", right: "see" },
      { path: "/plans", name: "Plans", right: "see" },
      { path: "/charges", name: "Charges", right: "see" },
      { path: "/checkout-sessions", name: "Checkout sessions", right: "see" },
      { path: "/nudges", name: "Nudges", right: "see" },
      { path: "/instalments", name: "Instalment plans", right: "see", only: "ecommerce" },
    ],
  },
  {
    name: "Finance",
    items: [
      { path: "/books", name: "Books", right: "finance" },
      { path: "/settlements", name: "Settlements", right: "finance" },
      { path: "/invoices", name: "Invoices", right: "finance" },
    ],
  },
  {
    name: "Developers",
    items: [
      { path: "/keys", name: "API keys", right: "develop" },
      { path: "/webhooks", name: "Webhooks", right: "develop" },
      { path: "/events", name: "Events", right: "develop" },
      { path: "/requests", name: "Requests", right: "develop" },
      { path: "/clocks", name: "Test clocks", right: "develop", only: "sandbox" },
      { path: "/machines", name: "Machines", right: "see" },
    ],
  },
]

/** The navigation of the account. Paths follow `/dashboard`. */
const ACCOUNT: ReadonlyArray<Item> = [
  { path: "/account", name: "Account", right: "account" },
  { path: "/team", name: "Team", right: "account" },
  { path: "/activity", name: "Activity", right: "account" },
  { path: "/live-access", name: "Live access", right: "account" },
  { path: "/me", name: "You", right: "see" },
]

/** Whether a path is the item's or one below it. */
const isCurrent = (path: string, item: string, isHome: boolean): boolean =>
  path === item || (!isHome && path.startsWith(`${item}/`))

const link = ({ path }: Frame, href: string, name: string, isHome = false): Html =>
  html`<li><a href="${href}" aria-current="${isCurrent(SECTIONS[path] ?? path, href, isHome) ? "page" : null}">${name}</a></li>`

const isShown = (
  { role, environment, vertical }: Pick<Frame, "role" | "environment" | "vertical">,
  { right, only }: Item,
): boolean =>
  may(role, right, environment === "live") &&
  (only !== "sandbox" || environment === "sandbox") &&
  (only !== "ecommerce" || vertical === "ecommerce")

/** Whether the navigation of a frame has the section with this path below the environment. */
export const isSectionShown = (frame: Pick<Frame, "role" | "environment" | "vertical">, path: string): boolean =>
  GROUPS.some(({ items }) => items.some((item) => item.path === path && isShown(frame, item)))

const group = (name: string | null, links: ReadonlyArray<Html>): Html | false =>
  links.length > 0 &&
  html`${name !== null && html`<h2>${name}</h2>`}<ul>${links}</ul>
`

/** The address of the same page in the other environment: its list for the page of one object, Home if there is none. */
const inOther = ({ path, environment, isOfAccount }: Frame): string => {
  const other = environment === "live" ? "sandbox" : "live"
  const section = `/${path.split("/")[3] ?? ""}`
  const hasIt =
    !isOfAccount && GROUPS.some(({ items }) => items.some((item) => item.path === section && item.only !== environment))
  return `/dashboard/${other}${hasIt ? section : ""}`
}

const environments = (frame: Frame): Html => {
  const option = (environment: Environment, name: string) => {
    const isHere = frame.environment === environment && !frame.isOfAccount
    const href = frame.environment === environment ? `/dashboard/${environment}` : inOther(frame)
    return html`<a href="${href}" aria-current="${isHere ? "true" : null}">${name}</a>`
  }
  return html`<p class="environments" role="group" aria-label="Environment">${option("live", "Live")}${option("sandbox", "Sandbox")}</p>`
}

const accountSwitch = ({ accounts, account, formToken }: Frame): Html | false =>
  accounts.length > 1 &&
  html`<form method="post" action="/dashboard/switch" class="switch">${hiddenField("form_token", formToken)}<label for="switch-account">Account</label>
<select id="switch-account" name="account">${accounts.map(
    ({ account: id, business }) => html`<option value="${id}" selected="${id === account}">${business}</option>`,
  )}</select><button class="plain">Show</button></form>`

const navigation = (frame: Frame): Html => {
  const base = `/dashboard/${frame.environment}`
  return html`<nav id="navigation" class="navigation" aria-label="Main">
<a class="close" href="#main">Close the menu</a>${environments(frame)}${GROUPS.map(({ name, items }) =>
    group(
      name,
      items
        .filter((item) => isShown(frame, item))
        .map(({ path, name }) => link(frame, `${base}${path}`, name, path === "")),
    ),
  )}${group(
    frame.business,
    ACCOUNT.filter((item) => isShown(frame, item)).map(({ path, name }) => link(frame, `/dashboard${path}`, name)),
  )}${accountSwitch(frame)}<form method="post" action="/dashboard/sign-out">${hiddenField("form_token", frame.formToken)}<p class="small quiet">${frame.email} · ${frame.role}</p><button class="plain">Sign out</button></form>
</nav>`
}

/** The form that finds an object by its ID, e-mail address, phone number or reference. */
const search = ({ environment }: Frame): Html =>
  html`<form class="search" role="search" action="${`/dashboard/${environment}/search`}"><label class="unseen" for="search">Search</label><input id="search" name="q" type="search" placeholder="ID, e-mail, phone or reference" autocomplete="off" maxlength="200" required="${true}"><button class="plain">Search</button></form>`

const banner = ({ environment, isOfAccount, isLiveApproved }: Frame): Html | false => {
  if (isOfAccount) return false
  if (environment === "sandbox") return html`<p class="banner"><strong>Sandbox: no money moves.</strong></p>`
  return (
    !isLiveApproved &&
    html`<p class="banner"><strong>Live is not switched on yet.</strong> <a href="/dashboard/live-access">Ask for live access</a></p>`
  )
}

const head = (title: string, business: string): Html => html`<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<meta name="format-detection" content="telephone=no">
<meta name="htmx-config" content="includeIndicatorCSS:false">
<title>${title} · ${business}</title>
<link rel="icon" href="/favicon.ico">
${ASSET_ELEMENTS}
</head>`

/** Renders a page of a signed-in member. `main` contains the page's only `h1`, whose text is the title. */
export const frame = (view: Frame, title: string, main: Html): string =>
  html`<!doctype html>
<html lang="en">
${head(title, view.business)}
<body class="${`dashboard ${view.isOfAccount ? "account" : view.environment}`}">
<a class="skip" href="#main">Skip to the content</a>
<header>${banner(view)}<div class="bar"><a class="menu" href="#navigation">Menu</a><p class="merchant"><a href="${`/dashboard/${view.environment}`}">${view.business}</a></p>${search(view)}</div></header>
<div class="sides">
${navigation(view)}
<main id="main" tabindex="-1">
${
  view.notice !== null &&
  html`<p class="notice success" role="status">${view.notice}</p>
`
}${main}
</main>
</div>
</body>
</html>
`.toString()

/** Renders a page without a session: signing up and in, invitations. */
export const frontDoor = (title: string, main: Html): string =>
  html`<!doctype html>
<html lang="en">
${head(title, "Dashboard")}
<body class="dashboard front">
<header><p class="merchant"><span class="initial" aria-hidden="true">R</span><span>Recurring billing</span></p></header>
<main id="main" class="narrow">
${main}
</main>
</body>
</html>
`.toString()
