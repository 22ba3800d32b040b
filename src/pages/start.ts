/** Renders the page at the service's own address, for engineers: what this is, and where to read more. */
import { type Html, html } from "./html.ts"
import { layout } from "./layout.ts"
import type { StartView } from "./views.ts"

const PLACES: ReadonlyArray<readonly [string, string, string]> = [
  ["/dashboard", "Dashboard", "customers, subscriptions, keys and books, for merchants"],
  ["/docs", "API reference", "every endpoint, with examples"],
  ["/docs/errors", "Error codes", "what each means and what to do"],
  ["/openapi.json", "OpenAPI document", "the same for machines"],
  ["/healthz", "Health", "whether this process is up"],
]

const firstCall = (origin: string, key: string): Html => html`<h2>Your first call</h2>
<p>This installation is for development, and this is the sandbox key of its demo account:</p>
<p><code>${key}</code></p>
<p>It creates a customer in the sandbox, where no money moves:</p>
<pre><code>curl ${origin}/sandbox/v1/customers \\
  -H "Authorization: Bearer ${key}" \\
  -H "Content-Type: application/json" \\
  -d '{"name": "Ada Obi", "email": "ada@example.com"}'</code></pre>
`

export const startPage = ({ origin, demoKey }: StartView): string =>
  layout(
    { business: null, simulated: false, title: "Start", width: "reading", script: false },
    html`<h1>A recurring-billing service</h1>
<p>Plans, customers, subscriptions, charges, reminders and test clocks over REST, in live and in a sandbox, for merchants in Nigeria.</p>
<ul class="places">
${PLACES.map(
  ([path, name, content]) => html`<li><a href="${path}">${name} <span class="quiet">${content}</span></a></li>
`,
)}</ul>
${demoKey !== null && firstCall(origin, demoKey)}`,
  )
