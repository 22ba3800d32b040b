/**
 * The template tag that makes pages. A template's own text is markup, and inserted values are text. Values are escaped wherever they are. A
 * template with a value in a place where escaping is not enough is refused at its first use.
 */

/** Markup that is safe to send. Only `html` and `ownMarkup` make it. */
export class Html {
  readonly #text: string
  constructor(text: string) {
    this.#text = text
  }
  toString(): string {
    return this.#text
  }
}

/** Marks our own files as markup, if templates cannot contain them. Never for input. */
export const ownMarkup = (text: string): Html => new Html(text)

export type Value = Html | string | number | boolean | null | undefined | ReadonlyArray<Value>

/** Where a value is. `whole`: it is everything between the quotes. */
type Place =
  | { readonly in: "text" }
  | { readonly in: "attribute"; readonly name: string; readonly whole: boolean; readonly address: boolean }

/** Attributes that a browser follows. */
const ADDRESSES = new Set(["href", "action", "src", "formaction", "hx-get", "hx-post", "hx-sse:connect"])
/** Attributes that the pages' policy refuses. */
const CODE = /^(on.*|style)$/
/** Attributes that may contain a value: any text is safe there, or is checked (above). Other attributes are fixed in their template. */
const OPEN =
  /^(aria-[a-z]+|data-[a-z]+|id|class|for|name|type|value|title|label|placeholder|autocomplete|autofocus|inputmode|maxlength|required|checked|selected|disabled|hidden|open|min|max|step|rows|pattern|list|method|enctype|form|formmethod|d|datetime|lang|tabindex|scope|colspan|href|action|src|formaction|hx-[a-z]+|hx-sse:connect|viewbox|x|y|x1|y1|x2|y2|cx|cy|r|rx|width|height|points|transform|fill|stroke|text-anchor)$/
/** Elements whose content is not text. */
const RAW = new Set(["script", "style", "iframe", "noembed", "noframes", "plaintext", "xmp"])

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
}

/** Escapes text for an element, or for an attribute in double quotes. */
const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => ENTITIES[character]!)

const refused = (why: string): never => {
  throw new Error(`A template of a page: ${why}.`)
}

/** The parts of markup that must be distinguished to locate values. */
const TEXT = /[^<]+/y
const RAW_ELEMENT = /<(script|style)\b[^>]*>.*?<\/\1>/isy
const COMMENT = /<!--.*?-->/sy
const DOCTYPE = /<!doctype [^>]*>/iy
const CLOSING = /<\/[a-z][a-z0-9]*>/iy
const OPENING = /<([a-z][a-z0-9]*)/iy
const ATTRIBUTE = /\s+([a-z][a-z0-9:-]*)(?:="([^"<]*)")?/iy
const OPENING_END = /\s*\/?>/y

/** Marks a value while a template is read; no template contains it. */
const HOLE = "\u0000"
const HOLES = new RegExp(HOLE, "g")

/** Returns the places of a template's values. Reads the whole template as markup of the strict kind that pages use. */
const read = (strings: ReadonlyArray<string>): ReadonlyArray<Place> => {
  const text = strings.join(HOLE)
  const places: Array<Place> = []
  let at = 0
  const take = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at
    const found = pattern.exec(text)
    if (found !== null) at = pattern.lastIndex
    return found
  }
  const takeFixed = (pattern: RegExp): boolean => {
    const found = take(pattern)
    if (found?.[0].includes(HOLE)) refused(`a value is inside ${found[0].slice(0, 40)}`)
    return found !== null
  }
  const attribute = (name: string, value: string): void => {
    const holes = value.match(HOLES)?.length ?? 0
    if (CODE.test(name)) refused(`the attribute ${name} is code`)
    if (holes > 0 && !OPEN.test(name)) refused(`the attribute ${name} cannot contain values`)
    const whole = value === HOLE
    if (ADDRESSES.has(name) && holes > 0 && !whole) refused(`${name} is put together from several parts`)
    for (let i = 0; i < holes; i++) places.push({ in: "attribute", name, whole, address: ADDRESSES.has(name) })
  }
  const opening = (element: string): void => {
    if (RAW.has(element.toLowerCase())) refused(`<${element}> is not closed in the template`)
    for (let found = take(ATTRIBUTE); found !== null; found = take(ATTRIBUTE))
      attribute(found[1]!.toLowerCase(), found[2] ?? "")
    if (take(OPENING_END) === null) refused(`<${element}> contains something other than quoted attributes`)
  }
  while (at < text.length) {
    const plain = take(TEXT)
    if (plain !== null) for (const _ of plain[0].matchAll(HOLES)) places.push({ in: "text" })
    else if (!takeFixed(RAW_ELEMENT) && !takeFixed(COMMENT) && !takeFixed(DOCTYPE) && !takeFixed(CLOSING)) {
      const found = take(OPENING)
      if (found === null) refused(`${JSON.stringify(text.slice(at, at + 40))} is not markup`)
      else opening(found[1]!)
    }
  }
  return places
}

/** Checks an address that a page leads to: of this service, of this page, empty (`data:,`), or of the web. */
const address = (value: string): string => {
  // Browsers ignore control characters and read a backslash as a slash.
  const plain = !/[\u0000-\u0020\u007f\\]/.test(value)
  const own = /^(\/(?!\/)|#)/.test(value) || value === "data:,"
  const web = /^https?:\/\/[^/]/i.test(value) && URL.canParse(value)
  if (!plain || !(own || web)) refused(`${JSON.stringify(value.slice(0, 40))} is no address that a page may lead to`)
  return value
}

const inText = (value: Value): string => {
  if (value instanceof Html) return value.toString()
  if (value === null || value === undefined || value === false) return ""
  if (Array.isArray(value)) return value.map(inText).join("")
  return typeof value === "string" || typeof value === "number" ? escaped(String(value)) : refused("a value is no text")
}

const inAttribute = (value: Value, { name, address: leads }: Place & { readonly in: "attribute" }): string => {
  if (value instanceof Html || typeof value === "object" || typeof value === "boolean")
    return refused(`${name} is no text`)
  return escaped(leads ? address(String(value)) : String(value))
}

const isNothing = (value: Value): boolean => value === null || value === undefined || value === false

const cache = new WeakMap<ReadonlyArray<string>, ReadonlyArray<Place>>()

const placesOf = (strings: ReadonlyArray<string>): ReadonlyArray<Place> => {
  const cached = cache.get(strings)
  if (cached !== undefined) return cached
  const places = read(strings)
  cache.set(strings, places)
  return places
}

/** An attribute's name and opening quote, at the end of the text before its value. */
const NAME = /\s+[a-z][a-z0-9:-]*="$/i

/**
 * Builds markup with values in it. Text and numbers are escaped, `Html` is inserted unchanged, lists are joined; null, undefined and false
 * are nothing. An attribute whose whole value is nothing is left out, and one that is true has no value: `<input required="${needed}">`.
 */
export const html = (strings: TemplateStringsArray, ...values: ReadonlyArray<Value>): Html => {
  const places = placesOf(strings)
  let text = strings[0]!
  values.forEach((value, index) => {
    const place = places[index]!
    let rest = strings[index + 1]!
    if (place.in === "text") text += inText(value)
    else if (place.whole && (isNothing(value) || value === true)) {
      const name = NAME.exec(text)![0]
      text = text.slice(0, text.length - name.length) + (value === true ? name.slice(0, -2) : "")
      rest = rest.slice(1)
    } else if (!isNothing(value)) text += inAttribute(value, place)
    text += rest
  })
  return new Html(text)
}
