/** Renders an object as JSON, within the bytes that a page may have. */
import { type Html, html } from "../html.ts"

/** Most bytes of the markup of a JSON text: a document has at most 60 KB. */
const MAX_MARKUP = 36_000

/** The bytes of a character on a page. */
const cost = (character: string): number => Buffer.byteLength(String(html`${character}`))

/** The part of a text that fits; undefined: all of it does. */
const cut = (text: string): string | undefined => {
  let sum = 0
  let at = 0
  for (const character of text) {
    sum += cost(character)
    if (sum > MAX_MARKUP) return text.slice(0, at)
    at += character.length
  }
  return undefined
}

/** `whole`: the path of the object as a file, for one that is too long for a page. */
export const jsonBlock = (label: string, value: unknown, whole: string): Html => {
  const text = JSON.stringify(value, null, 2)
  const part = cut(text)
  return html`<pre class="json" tabindex="0" role="region" aria-label="${label}"><code>${part ?? text}</code></pre>
<p class="pager">${part !== undefined && html`<span>This is the beginning.</span>`}<a href="${whole}">${part === undefined ? "As a file" : "All of it, as a file"}</a></p>`
}
