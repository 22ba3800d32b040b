/**
 * The tag that makes pages. What a template says is markup, what is put into it is text: values are escaped wherever they
 * stand, and a template with a value where escaping would not do is refused when it is first used.
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

/** Markup as it is written: for files of our own that templates cannot hold, never for what anybody sent. */
export const ownMarkup = (text: string): Html => new Html(text)

export type Value = Html | string | number | boolean | null | undefined | ReadonlyArray<Value>

/** Where a value stands. `whole`: it is all that stands between the quotes. */
type Place =
  | { readonly in: "text" }
  | { readonly in: "attribute"; readonly name: string; readonly whole: boolean; readonly address: boolean }

/** Attributes that a browser follows. */
const ADDRESSES = new Set(["href", "action", "src", "formaction"])
/** Attributes that the pages' policy refuses. */
const CODE = /^(on.*|style)$/
/** Attributes that may hold a value: any text is safe there, or is checked (above). Others say what their template says. */
const OPEN =
  /^(aria-[a-z]+|data-[a-z]+|id|class|for|name|type|value|title|label|placeholder|autocomplete|autofocus|inputmode|maxlength|required|checked|selected|disabled|hidden|open|max|method|form|d|datetime|lang|tabindex|href|action|src|formaction)$/
/** Elements whose content is not text. */
const RAW = new Set(["script", "style", "iframe", "noembed", "noframes", "plaintext", "xmp"])

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
}

/** Text as it stands in markup, in an element or between double quotes. */
const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => ENTITIES[character]!)

const refused = (why: string): never => {
  throw new Error(`A template of a page: ${why}.`)
}

/** What there is of markup, as far as it tells where a value stands. */
const TEXT = /[^<]+/y
const RAW_ELEMENT = /<(script|style)\b[^>]*>.*?<\/\1>/isy
const COMMENT = /<!--.*?-->/sy
const DOCTYPE = /<!doctype [^>]*>/iy
const CLOSING = /<\/[a-z][a-z0-9]*>/iy
const OPENING = /<([a-z][a-z0-9]*)/iy
const ATTRIBUTE = /\s+([a-z][a-z0-9:-]*)(?:="([^"<]*)")?/iy
const OPENING_END = /\s*\/?>/y

/** Stands for a value while a template is read; no template has one of its own. */
const HOLE = "\u0000"
const HOLES = new RegExp(HOLE, "g")

/** The places of the values of a template, which is read whole as markup of the strict kind that pages are written in. */
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
    if (found?.[0].includes(HOLE)) refused(`a value stands in ${found[0].slice(0, 40)}`)
    return found !== null
  }
  const attribute = (name: string, value: string): void => {
    const holes = value.match(HOLES)?.length ?? 0
    if (CODE.test(name)) refused(`the attribute ${name} is code`)
    if (holes > 0 && !OPEN.test(name)) refused(`the attribute ${name} is none that holds values`)
    const whole = value === HOLE
    if (ADDRESSES.has(name) && holes > 0 && !whole) refused(`${name} is put together`)
    for (let i = 0; i < holes; i++) places.push({ in: "attribute", name, whole, address: ADDRESSES.has(name) })
  }
  const opening = (element: string): void => {
    if (RAW.has(element.toLowerCase())) refused(`<${element}> is not closed in the template`)
    for (let found = take(ATTRIBUTE); found !== null; found = take(ATTRIBUTE))
      attribute(found[1]!.toLowerCase(), found[2] ?? "")
    if (take(OPENING_END) === null) refused(`something else than attributes in quotes stands in <${element}>`)
  }
  while (at < text.length) {
    const plain = take(TEXT)
    if (plain !== null) for (const _ of plain[0].matchAll(HOLES)) places.push({ in: "text" })
    else if (!takeFixed(RAW_ELEMENT) && !takeFixed(COMMENT) && !takeFixed(DOCTYPE) && !takeFixed(CLOSING)) {
      const found = take(OPENING)
      if (found === null) refused(`${JSON.stringify(text.slice(at, at + 40))} is no markup`)
      else opening(found[1]!)
    }
  }
  return places
}

/** An address that a page may lead to: of this service, of this page, nothing at all, or of the web. */
const address = (value: string): string => {
  // Browsers leave out control characters and take a backslash for a slash.
  const plain = !/[\u0000-\u0020\u007f\\]/.test(value)
  const own = /^(\/(?!\/)|#)/.test(value) || value === "data:,"
  const web = /^https?:\/\/[^/]/i.test(value) && URL.canParse(value)
  if (!plain || !(own || web)) refused(`${JSON.stringify(value.slice(0, 40))} is no address to lead to`)
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

const known = new WeakMap<ReadonlyArray<string>, ReadonlyArray<Place>>()

const placesOf = (strings: ReadonlyArray<string>): ReadonlyArray<Place> => {
  const found = known.get(strings)
  if (found !== undefined) return found
  const places = read(strings)
  known.set(strings, places)
  return places
}

/** The name of an attribute and its opening quote, at the end of what stands before its value. */
const NAME = /\s+[a-z][a-z0-9:-]*="$/i

/**
 * Markup with values in it. Text and numbers are escaped, `Html` is put in as it is, lists are joined, null, undefined and
 * false are nothing. An attribute whose whole value is nothing is left out, and one that is true has no value:
 * `<input required="${needed}">`.
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
