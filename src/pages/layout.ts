/** Renders the document around every page: header, title and footer. */
import { scriptElement, styleElement } from "./headers.ts"
import { type Html, html } from "./html.ts"

/** The name on pages that belong to no merchant. */
const SERVICE = "Recurring billing"

export interface Shell {
  /** null: the page belongs to no merchant. */
  readonly business: string | null
  /** A banner says that no money moves. */
  readonly simulated: boolean
  /** Whether the page offers test cards. The banner then links to them. */
  readonly testCards?: boolean
  /** The title of the page, without the merchant's name. */
  readonly title: string
  /** wide: two columns; narrow: one message; reading: text. */
  readonly width: "wide" | "narrow" | "reading"
  /** Whether browser.js helps on the page. */
  readonly script: boolean
  /** For the head, such as a reload for browsers without scripts. */
  readonly head?: Html
}

const banner = ({ simulated, testCards }: Shell): Html | false =>
  simulated &&
  html`<p class="banner"><strong>Sandbox: no money moves.</strong>${
    testCards === true && html` <a href="#test-cards">Test cards</a>`
  }</p>`

/** Returns the first letter or digit of a name, shown like a logo. */
const initial = (name: string): string => /[\p{L}\p{N}]/u.exec(name)?.[0]?.toUpperCase() ?? "•"

const footer = (business: string | null): Html =>
  business === null
    ? html`<p>${SERVICE}: plans, subscriptions and payments for merchants in Nigeria.</p>`
    : html`<p>Questions about what you buy or pay? Contact ${business}.</p>`

/** Renders the whole document. `main` contains the page's only `h1`. */
export const layout = (shell: Shell, main: Html): string => {
  const name = shell.business ?? SERVICE
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<meta name="format-detection" content="telephone=no">
<title>${shell.title} · ${name}</title>
<link rel="icon" href="data:,">
${styleElement}
${shell.head}</head>
<body>
<header>${banner(shell)}<p class="merchant"><span class="initial" aria-hidden="true">${initial(name)}</span><span>${name}</span></p></header>
<main class="${shell.width}">
${main}
</main>
<footer>${footer(shell.business)}</footer>
${shell.script && scriptElement}
</body>
</html>
`.toString()
}
