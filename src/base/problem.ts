/**
 * Every refusal the API can give, declared once: status, type and what a developer should do (decision N).
 * The catalogue also makes the page behind `doc_url`.
 */
import { Effect, Schema } from "effect"

export type ProblemType =
  | "authentication_error"
  | "permission_error"
  | "invalid_request_error"
  | "state_error"
  | "idempotency_error"
  | "rate_limit_error"
  | "api_error"

interface Entry {
  readonly status: number
  readonly type: ProblemType
  readonly explanation: string
}

const entry = (status: number, type: ProblemType, explanation: string): Entry => ({ status, type, explanation })

export const CATALOGUE = {
  https_required: entry(
    403,
    "permission_error",
    "The request came over plain HTTP. Use https; requests are never redirected.",
  ),
  key_missing: entry(401, "authentication_error", "Send your API key as `Authorization: Bearer <API_KEY>`."),
  key_invalid: entry(
    401,
    "authentication_error",
    "The API key is not one of ours: check for a truncated or mistyped key.",
  ),
  key_revoked: entry(401, "authentication_error", "The API key was revoked. Use another key of the account."),
  key_expired: entry(
    401,
    "authentication_error",
    "The API key was rolled and its grace period has passed. Use the key that replaced it.",
  ),
  key_environment_mismatch: entry(
    401,
    "authentication_error",
    "A sandbox key works only at the sandbox address, a live key only at the live address.",
  ),
  live_access_required: entry(
    403,
    "permission_error",
    "Live access of this account is not approved, or it is suspended.",
  ),
  insufficient_scope: entry(403, "permission_error", "The restricted key lacks the scope that the message names."),
  secret_key_required: entry(403, "permission_error", "Only a secret key may call this."),
  administrator_key_required: entry(
    403,
    "permission_error",
    "This is for the service's own administrators: it takes an administrator key.",
  ),
  origin_not_allowed: entry(
    403,
    "permission_error",
    "The page's origin is not on the allow-list of the publishable key: the operator makes one that has it (key create --origin), scheme and port included. Of a page that buyers pay on: the form was sent from another site.",
  ),
  message_unknown: entry(
    404,
    "invalid_request_error",
    "A messenger reported a message that no nudge is known to have been sent by, or not yet.",
  ),
  signature_invalid: entry(
    401,
    "authentication_error",
    "A callback is taken only with the right signature of the rail or messenger that it comes from. Messengers get the status 403.",
  ),
  link_invalid: entry(
    403,
    "permission_error",
    "The link was altered, or its time is over. Fetch the object again: it carries a fresh link.",
  ),
  vertical_locked: entry(
    403,
    "permission_error",
    "An approved provider cannot change its business type by itself. Ask us to.",
  ),
  rate_limited: entry(
    429,
    "rate_limit_error",
    "Too many requests. Wait for `Retry-After` seconds, and spread requests out.",
  ),
  too_many_in_flight: entry(
    429,
    "rate_limit_error",
    "Too many requests of this account are under way at once. Send the next one when one of them is answered.",
  ),
  route_missing: entry(
    404,
    "invalid_request_error",
    "There is no such method and path in this environment. The `Allow` header lists the methods that the path has.",
  ),
  resource_missing: entry(404, "invalid_request_error", "No such object in this account and environment."),
  content_type_invalid: entry(400, "invalid_request_error", "A body needs `Content-Type: application/json`."),
  json_invalid: entry(
    400,
    "invalid_request_error",
    "The body must be a JSON object of at most 10,000 values and 32 levels, without a key `__proto__`, NUL characters or lone surrogates.",
  ),
  request_too_large: entry(400, "invalid_request_error", "The body may hold at most 256 KiB."),
  parameter_missing: entry(400, "invalid_request_error", "A required parameter is missing: `param` names it."),
  parameter_invalid: entry(
    400,
    "invalid_request_error",
    "A parameter has a value that is not allowed: `param` names it, the message says what is.",
  ),
  parameter_unknown: entry(
    400,
    "invalid_request_error",
    "There is no such parameter here: check the spelling of what `param` names.",
  ),
  idempotency_key_reused: entry(
    409,
    "idempotency_error",
    "This Idempotency-Key was used with another request. Use a fresh key for a different request.",
  ),
  idempotency_request_in_progress: entry(
    409,
    "idempotency_error",
    "The first request with this Idempotency-Key is still being processed. Try again in a moment.",
  ),
  idempotency_response_not_kept: entry(
    409,
    "idempotency_error",
    "The first request with this Idempotency-Key succeeded. Its response was too large to keep: the message names the object to fetch.",
  ),
  lock_timeout: entry(
    409,
    "state_error",
    "Another request of this account has been holding what this one needs for seconds. Nothing was changed: try again.",
  ),
  payment_method_required: entry(
    422,
    "state_error",
    "The customer has no default payment method and the request names none.",
  ),
  checkout_session_not_open: entry(
    422,
    "state_error",
    "The checkout session is completed or expired, as the message says. Create another one where the buyer is to subscribe again.",
  ),
  checkout_session_limit_reached: entry(
    422,
    "state_error",
    "A customer has at most 100 open checkout sessions. Expire some, or send the buyer to one that is open.",
  ),
  payment_link_closed: entry(
    422,
    "state_error",
    "The payment link takes nothing now: it was used and nothing is owed since, what it asked for was paid otherwise, it is over 30 days old, or its subscription is cancelled. The message says which.",
  ),
  card_declined: entry(
    402,
    "state_error",
    "The payment method was declined, for the reason in `failure_code`. With `authentication_required` send `otp`, the one-time code of the buyer's bank; else try another payment method.",
  ),
  amount_changed: entry(
    422,
    "state_error",
    "What is due differs from the `amount` that the buyer was shown. Show the page again, or leave `amount` out.",
  ),
  too_many_attempts: entry(
    429,
    "rate_limit_error",
    "Too many payments were tried on this page. The merchant can send a new link; the page of an instalment plan takes more a day later.",
  ),
  plan_archived: entry(
    422,
    "state_error",
    "The plan is archived: it takes no new subscriptions. Unarchive it or use another plan.",
  ),
  subscription_state_invalid: entry(
    422,
    "state_error",
    "The subscription's status does not allow this. The message names the status.",
  ),
  subscription_unpaid: entry(
    422,
    "state_error",
    "The charge for the deliveries reported before is not paid yet: report more once it is.",
  ),
  pause_not_enabled: entry(
    422,
    "state_error",
    "The plan does not allow pausing: set its `pause_enabled` to true first.",
  ),
  charge_in_progress: entry(
    422,
    "state_error",
    "A charge of the subscription, page or instalment plan is pending at the rail. Try again once it has succeeded or failed.",
  ),
  charge_not_retryable: entry(
    422,
    "state_error",
    "Only the newest failed charge of an overdue subscription can be retried, or a failed one-off charge that was not retried since.",
  ),
  webhook_endpoint_limit_reached: entry(
    422,
    "state_error",
    "An account has at most 16 webhook endpoints in each environment: delete one first.",
  ),
  webhook_secret_limit_reached: entry(
    422,
    "state_error",
    "A webhook endpoint has at most 5 secrets that sign at once: the message says when the oldest one stops, and another can be made.",
  ),
  webhook_endpoint_disabled: entry(422, "state_error", "A disabled webhook endpoint gets nothing: enable it first."),
  nudge_limit_reached: entry(
    422,
    "state_error",
    "A customer can be sent 3 nudges by request within 24 hours, automatic ones beside them: send the next one later.",
  ),
  reset_in_progress: entry(
    409,
    "state_error",
    "The sandbox is being reset: nothing can be written to it until that is done, usually within seconds.",
  ),
  account_moving: entry(
    503,
    "api_error",
    "The account is moving to another machine of the service: for some seconds it can be read and not written. Try again after `Retry-After` seconds; nothing of the request was done.",
  ),
  timestamp_out_of_period: entry(
    422,
    "state_error",
    "The timestamp lies before the subscription's current period: that period's units are billed.",
  ),
  feature_unavailable: entry(
    404,
    "invalid_request_error",
    "This account does not have the feature: instalment plans are for accounts whose business type is ecommerce.",
  ),
  slots_exhausted: entry(422, "state_error", "Every slot of the product is taken. One that is cancelled makes room."),
  slots_in_use: entry(
    422,
    "state_error",
    "The product has more plans than it would have slots. Name as many at least.",
  ),
  product_inactive: entry(422, "state_error", "The product is not offered now. Set `isActive` to true to offer it."),
  savings_product_limit_reached: entry(
    422,
    "state_error",
    "The account has as many products as it may have. Change one.",
  ),
  instalment_too_small: entry(
    422,
    "invalid_request_error",
    "An instalment would come to less than 200 naira. Choose a frequency with fewer instalments.",
  ),
  savings_plan_state_invalid: entry(
    422,
    "state_error",
    "The instalment plan is in a state in which this cannot be done. The message says in which, and what can be.",
  ),
  test_clock_not_ready: entry(422, "state_error", "The test clock is not ready."),
  test_clock_advancing: entry(
    422,
    "state_error",
    "The customer's test clock is advancing. Wait for `test_clock.ready`.",
  ),
  test_clock_full: entry(422, "state_error", "A test clock holds at most 10,000 customers. Use another clock."),
  request_timeout: entry(408, "invalid_request_error", "The request did not arrive whole in time. Send it again."),
  host_invalid: entry(
    400,
    "invalid_request_error",
    "An HTTP/1.1 request has the header `Host` once, with a name or an address and maybe a port. The connection ends with this answer.",
  ),
  transfer_encoding_unsupported: entry(
    501,
    "invalid_request_error",
    "A body comes with `Content-Length` or with `Transfer-Encoding: chunked`; no other transfer coding is understood. The connection ends with this answer.",
  ),
  request_malformed: entry(400, "invalid_request_error", "What arrived is not an HTTP request that can be read."),
  internal_error: entry(500, "api_error", "Something went wrong on our side. The request ID helps us find it."),
  service_unavailable: entry(
    503,
    "api_error",
    "The service cannot reach its database just now, has more to do than it can, or has a clock that disagrees with its database's. Try again after `Retry-After` seconds.",
  ),
  outcome_unknown: entry(
    503,
    "api_error",
    "The connection to the database was lost while the request was being committed: it may have been done. Look for what it makes, or send it again with the same Idempotency-Key: then it is done once.",
  ),
  query_too_slow: entry(
    503,
    "api_error",
    "A list could not be found in time. Filter by less or by a narrower range of time, or ask for a smaller page.",
  ),
} as const satisfies Record<string, Entry>

export type ProblemCode = keyof typeof CATALOGUE

/** A refusal that the caller can act on. Everything else in the program is a defect. */
export class Problem extends Schema.TaggedError<Problem>()("Problem", {
  code: Schema.Literals(Object.keys(CATALOGUE) as [ProblemCode, ...Array<ProblemCode>]),
  message: Schema.String,
  param: Schema.NullOr(Schema.String),
  /**
   * Differs from the catalogue's where a reference in a body is unknown (400 `resource_missing`, decision B3), and for
   * messengers (403 `signature_invalid`).
   */
  status: Schema.Int,
  /** Why a payment method was declined (`card_declined`). */
  failureCode: Schema.NullOr(Schema.String),
  /** When another try is worth it, in seconds from now, where that is known. */
  retryAfterS: Schema.optionalKey(Schema.Int),
}) {}

export const problem = (code: ProblemCode, message: string, param: string | null = null): Problem =>
  new Problem({ code, message, param, status: CATALOGUE[code].status, failureCode: null })

/** A refusal that says when another try is worth it, in seconds from now. */
export const tryAgainIn = (retryAfterS: number, refusal: Problem): Problem =>
  new Problem({ ...refusal, message: refusal.message, retryAfterS })

/** A payment method was declined on a page: 402 (decision G8). */
export const declined = (failureCode: string, message: string): Problem =>
  new Problem({ code: "card_declined", message, param: null, status: CATALOGUE.card_declined.status, failureCode })

/** The object that a path names does not exist here: 404 (decision B3). */
export const noSuch = (object: string, id: string): Problem =>
  problem("resource_missing", `No such ${object}: ${JSON.stringify(id.slice(0, 80))}.`)

/** The object that a body parameter names does not exist here: 400 (decision B3). */
export const noSuchReference = (object: string, id: string, param: string): Problem =>
  new Problem({
    code: "resource_missing",
    message: `No such ${object}: ${JSON.stringify(id.slice(0, 80))}.`,
    param,
    status: 400,
    failureCode: null,
  })

/** A look-up of what a body parameter names: an object that is missing is the body's fault (decision B3). */
export const asReference = <A, E, R>(lookUp: Effect.Effect<A, E | Problem, R>, param: string) =>
  Effect.mapError(lookUp, (error) =>
    error instanceof Problem && error.code === "resource_missing"
      ? new Problem({ ...error, message: error.message, param, status: 400 })
      : error,
  )

/** `work`, whose refusal for an object's state (422) comes after what `judged` refuses (decision A6). */
export const beforeState = <A, B, E, E2, R, R2>(judged: Effect.Effect<B, E, R>, work: Effect.Effect<A, E2, R2>) =>
  Effect.tapError(work, (error) =>
    error instanceof Problem && error.status === 422 ? judged : Effect.succeed(undefined),
  )

export const invalid = (param: string, message: string): Problem => problem("parameter_invalid", message, param)
