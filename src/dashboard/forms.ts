/** Reads the dashboard's forms, and refuses those that another site, another session or another account sent (decision R5). */

import { hash } from "node:crypto"
import type { IncomingHttpHeaders } from "node:http"
import { Effect } from "effect"
import { problem } from "../base/problem.ts"
import { isSame } from "../base/sameSecret.ts"
import { isJson } from "../http/page.ts"
import type { PublicRequest } from "../http/publicRoutes.ts"
import type { Typed } from "../pages/dashboard/fields.ts"

/** Most fields that a form has. */
const MAX_FIELDS = 500

export const FROM_ELSEWHERE = problem(
  "form_invalid",
  "This form came from another site, from an ended session, or from a page that shows another account. Load the page again.",
)

/** The secret that a form contains: only pages of this browser's session, and of the account that it shows, have it. */
export const formTokenOf = (cookie: string, account = ""): string =>
  hash("sha256", `form ${cookie} ${account}`, "base64url")

/**
 * Whether a browser sent the request from a page of this host. Programs send neither header. Over plain HTTP, in development, the service
 * has several names, such as localhost: there the page's host is the called one.
 */
export const isFromHere = (headers: IncomingHttpHeaders, origin: string): boolean => {
  const site = headers["sec-fetch-site"]
  if (site !== undefined && site !== "same-origin") return false
  const from = headers.origin
  if (from === undefined || from === origin) return true
  return origin.startsWith("http:") && from === `http://${headers.host}`
}

/** What a form contains. */
export interface Form {
  readonly typed: Typed
  /** The first value of a field, without space around it; empty: it was left out. */
  readonly get: (name: string) => string
  readonly all: (name: string) => ReadonlyArray<string>
  /** Fields of JSON, for scripts. */
  readonly json: Readonly<Record<string, unknown>>
  /** The file of a form that takes one. */
  readonly file?: UploadedFile
}

export interface UploadedFile {
  readonly name: string
  readonly bytes: Buffer
}

/** Makes a form of these fields. A NUL character, which Postgres stores nowhere, becomes a space. */
export const formOf = (pairs: Iterable<readonly [string, string]>, json: Form["json"] = {}): Form => {
  const typed = new Map<string, Array<string>>()
  for (const [name, sent] of pairs) {
    const value = sent.replaceAll("\0", " ")
    const values = typed.get(name)
    if (values === undefined) typed.set(name, [value])
    else values.push(value)
  }
  return {
    typed,
    get: (name) => (typed.get(name)?.[0] ?? "").trim(),
    all: (name) => typed.get(name) ?? [],
    json,
  }
}

const parse = (text: string, type: string | undefined): Form | undefined => {
  if (!isJson(type)) {
    const pairs = [...new URLSearchParams(text)]
    return pairs.length > MAX_FIELDS ? undefined : formOf(pairs)
  }
  try {
    const fields: unknown = JSON.parse(text)
    if (!(fields instanceof Object)) return undefined
    const texts = Object.entries(fields).filter((pair): pair is [string, string] => typeof pair[1] === "string")
    return formOf(texts, fields as Form["json"])
  } catch {
    return undefined
  }
}

/** Reads a form that contains this token. */
export const readForm = Effect.fnUntraced(function* (
  { headers, body }: Pick<PublicRequest, "headers" | "body">,
  origin: string,
  token: string,
) {
  if (!isFromHere(headers, origin)) return yield* FROM_ELSEWHERE
  const text = (yield* body).toString("utf8")
  const form = parse(text, headers["content-type"])
  if (form === undefined) return yield* problem("form_invalid", "The form cannot be read.")
  return isSame(form.get("form_token"), token) ? form : yield* FROM_ELSEWHERE
})
