/** Builds responses: the success and error envelopes. */
import { HttpServerResponse } from "effect/http"
import { CATALOGUE } from "../base/catalogue.ts"
import type { Json } from "../base/json.ts"
import type { Problem } from "../base/problem.ts"

/** A restarting database is back within seconds. */
const RETRY_AFTER_SECONDS = 2

type Headers = Readonly<Record<string, string>>

export const json = (
  status: number,
  body: string,
  requestId: string,
  headers: Headers = {},
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(body, {
    status,
    contentType: "application/json; charset=utf-8",
    headers: { "x-request-id": requestId, "cache-control": "no-store", ...headers },
  })

export const success = (data: Json): string => JSON.stringify({ success: true, data })

/** Adds `meta` to a success envelope that has none. */
export const withMeta = (envelope: string, meta: Json): string =>
  `${envelope.slice(0, -1)},"meta":${JSON.stringify(meta)}}`

/** Builds a page from rendered objects. */
export const listSuccess = (
  objects: ReadonlyArray<string>,
  meta: { readonly has_more: boolean; readonly next_cursor: string | null; readonly limit: number },
): string => `{"success":true,"data":[${objects.join()}],"meta":${JSON.stringify(meta)}}`

export const failureBody = (problem: Problem, requestId: string, origin: string): string => {
  const error = {
    type: CATALOGUE[problem.code].type,
    code: problem.code,
    message: problem.message,
    param: problem.param,
    request_id: requestId,
    doc_url: `${origin}/docs/errors#${problem.code}`,
    ...(problem.failureCode === null ? {} : { failure_code: problem.failureCode }),
  }
  return JSON.stringify({ success: false, error })
}

export const failure = (
  problem: Problem,
  requestId: string,
  origin: string,
  headers: Headers = {},
): HttpServerResponse.HttpServerResponse => {
  const isWorthRetrying = problem.status === 503 && problem.code !== "outcome_unknown"
  const seconds = problem.retryAfterS ?? (isWorthRetrying ? RETRY_AFTER_SECONDS : undefined)
  const retry: Headers = seconds === undefined ? {} : { "retry-after": String(seconds) }
  return json(problem.status, failureBody(problem, requestId, origin), requestId, { ...retry, ...headers })
}
