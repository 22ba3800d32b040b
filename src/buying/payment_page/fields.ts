/** Reads submissions of payment pages, as forms or JSON, and answers programs in JSON (decision G8). */
import { randomBytes } from "node:crypto"
import { Effect } from "effect"
import type { Json } from "../../base/json.ts"
import { type Problem, problem } from "../../base/problem.ts"
import { success } from "../../http/envelope.ts"
import { Origin } from "../../http/Origin.ts"
import { isJson } from "../../http/page.ts"
import { parseBody } from "../../http/parseBody.ts"
import type { PublicRequest, PublicResponse } from "../../http/publicRoutes.ts"
import { type Fault, type Fields, formFields, jsonFields } from "./submission.ts"

export const answer = (data: Json): PublicResponse => ({
  status: 200,
  contentType: "application/json; charset=utf-8",
  body: Buffer.from(success(data)),
})

/** Returns a submission number: the idempotency key of one form. */
export const newSubmissionNumber = (): string => randomBytes(16).toString("base64url")

const CROSS_SITE = problem(
  "origin_not_allowed",
  "The form was sent from a page of another site: open the link and send it from there.",
)

/**
 * Whether a browser sent the form from another site (decision G16). `Origin: null` proves nothing: browsers send it for our own pages too,
 * because they allow no referrer.
 */
const isOfAnotherSite = ({ "sec-fetch-site": site, origin, host }: PublicRequest["headers"], own: string): boolean =>
  site === "cross-site" ||
  site === "same-site" ||
  (origin !== undefined &&
    origin !== "null" &&
    origin !== new URL(own).origin &&
    ![`https://${host}`, `http://${host}`].includes(origin))

/** Reads the submitted fields. Refuses a form from another site. */
export const readFields = Effect.fnUntraced(function* ({ headers, body }: PublicRequest) {
  if (isOfAnotherSite(headers, (yield* Origin).url)) return yield* CROSS_SITE
  const type = headers["content-type"]
  const text = (yield* body).toString("utf8")
  if (isJson(type)) {
    return yield* jsonFields(yield* parseBody(text))
  }
  if (type === undefined ? text !== "" : !/^application\/x-www-form-urlencoded\s*(;|$)/i.test(type))
    return yield* problem(
      "content_type_invalid",
      "Send a form (application/x-www-form-urlencoded) or JSON (application/json).",
    )
  return formFields(text)
})

/** Returns the first fault in the order of the body, missing parameters last (decision A5). */
export const firstFault = (faults: ReadonlyArray<Fault>, fields: Fields): Problem => {
  const names: ReadonlyArray<string> = Object.keys(fields)
  const positionOf = ({ field, problem: { code } }: Fault) =>
    code === "parameter_missing" ? names.length : names.indexOf(field)
  return faults.toSorted((a, b) => positionOf(a) - positionOf(b))[0]!.problem
}
