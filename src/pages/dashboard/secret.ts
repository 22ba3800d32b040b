/** Renders a secret that is shown once: a key, or the secret that signs webhooks. */
import { type Html, html, type Value } from "../html.ts"
import { facts, notice, pageHead } from "./parts.ts"

export interface SecretView {
  readonly title: string
  readonly secret: string
  /** What it is for, in a sentence. */
  readonly about: Value
  readonly facts: ReadonlyArray<readonly [string, Value]>
  readonly backTo: string
  readonly backText: string
}

export const secretMain = ({ title, secret, about, facts: pairs, backTo, backText }: SecretView): Html =>
  html`${pageHead(title)}${notice("warning", html`<p>Copy it now: it is never shown again.</p>`)}<div class="card stack"><p><code id="secret" class="secret shown-once">${secret}</code></p>
<p class="actions"><button type="button" class="button" data-copy="#secret" hidden="${true}">Copy</button></p>
<p>${about}</p></div>
${facts(pairs)}<p class="section"><a class="act main" href="${backTo}">${backText}</a></p>`
