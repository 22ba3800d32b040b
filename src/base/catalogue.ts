/**
 * Every error that the API can return, declared once: status, type and what a developer should do (decision N). The page behind
 * `doc_url` is made from this catalogue.
 */
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
    "The service does not know this API key: check for a truncated or mistyped key.",
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
    "Only the service's own administrators may do this: use an administrator key.",
  ),
  origin_not_allowed: entry(
    403,
    "permission_error",
    "The page's origin is not on the allow-list of the publishable key. Create a key with it in the dashboard (API keys), scheme and port included. On a payment page: the form was sent from another site.",
  ),
  message_unknown: entry(
    404,
    "invalid_request_error",
    "A messenger reported a message that belongs to no nudge, or whose nudge is not recorded yet.",
  ),
  signature_invalid: entry(
    401,
    "authentication_error",
    "A callback needs the valid signature of the rail or messenger that sends it. Messengers get the status 403.",
  ),
  link_invalid: entry(
    403,
    "permission_error",
    "The link was altered or has expired. Fetch the object again: it has a new link.",
  ),
  vertical_locked: entry(
    403,
    "permission_error",
    "An approved provider cannot change its own business type. Ask us to change it.",
  ),
  rate_limited: entry(
    429,
    "rate_limit_error",
    "Too many requests. Wait for `Retry-After` seconds, and spread requests out.",
  ),
  too_many_in_flight: entry(
    429,
    "rate_limit_error",
    "Too many requests of this account are in progress. Send the next one when one of them has finished.",
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
  request_too_large: entry(400, "invalid_request_error", "The body can have at most 256 KiB."),
  parameter_missing: entry(400, "invalid_request_error", "A required parameter is missing: `param` names it."),
  parameter_invalid: entry(
    400,
    "invalid_request_error",
    "A parameter has a value that is not allowed: `param` names the parameter, the message names the allowed values.",
  ),
  parameter_unknown: entry(
    400,
    "invalid_request_error",
    "There is no such parameter: check the spelling of the name in `param`.",
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
    "Another request of this account kept a lock that this request needs for several seconds. Nothing was changed: try again.",
  ),
  payment_method_required: entry(
    422,
    "state_error",
    "The customer has no default payment method and the request names none.",
  ),
  checkout_session_not_open: entry(
    422,
    "state_error",
    "The checkout session is completed or expired; the message says which. Create another session if the buyer is to subscribe again.",
  ),
  checkout_session_limit_reached: entry(
    422,
    "state_error",
    "A customer has at most 100 open checkout sessions. Expire some, or send the buyer to one that is open.",
  ),
  payment_link_closed: entry(
    422,
    "state_error",
    "The payment link takes no payment now: it was used and nothing is owed since, its amount was paid in another way, it is over 30 days old, or its subscription is cancelled. The message says which.",
  ),
  card_declined: entry(
    402,
    "state_error",
    "The payment method was declined, for the reason in `failure_code`. With `authentication_required` send `otp`, the one-time code of the buyer's bank; otherwise try another payment method.",
  ),
  amount_changed: entry(
    422,
    "state_error",
    "The amount due differs from the `amount` that the buyer saw. Show the page again, or leave `amount` out.",
  ),
  too_many_attempts: entry(
    429,
    "rate_limit_error",
    "Too many payments were tried on this page. The merchant can send a new link; the page of an instalment plan allows more a day later.",
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
    "The charge for the deliveries reported before is not paid yet: report more after it is paid.",
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
    "Only these can be retried: the newest failed charge of an overdue subscription, or a failed one-off charge that was not retried since.",
  ),
  webhook_endpoint_limit_reached: entry(
    422,
    "state_error",
    "An account has at most 16 webhook endpoints in each environment: delete one first.",
  ),
  webhook_secret_limit_reached: entry(
    422,
    "state_error",
    "A webhook endpoint has at most 5 active signing secrets. The message says when the oldest one expires; then another can be created.",
  ),
  webhook_endpoint_disabled: entry(
    422,
    "state_error",
    "A disabled webhook endpoint receives no deliveries: enable it first.",
  ),
  nudge_limit_reached: entry(
    422,
    "state_error",
    "A customer can get 3 requested nudges within 24 hours, in addition to automatic ones. Send the next one later.",
  ),
  reset_in_progress: entry(
    409,
    "state_error",
    "The sandbox is being reset: it accepts no writes until the reset is done, usually within seconds.",
  ),
  account_moving: entry(
    503,
    "api_error",
    "The account is moving to another machine of the service: for some seconds it can be read but not written. Nothing of the request was done. Try again after `Retry-After` seconds.",
  ),
  timestamp_out_of_period: entry(
    422,
    "state_error",
    "The timestamp is before the subscription's current period: that period's units are already billed.",
  ),
  feature_unavailable: entry(
    404,
    "invalid_request_error",
    "This account does not have the feature: instalment plans are for accounts whose business type is ecommerce.",
  ),
  slots_exhausted: entry(
    422,
    "state_error",
    "Every slot of the product is taken. A slot becomes free when a plan is cancelled.",
  ),
  slots_in_use: entry(
    422,
    "state_error",
    "The product has more plans than the requested number of slots. Set at least as many slots as plans.",
  ),
  product_inactive: entry(422, "state_error", "The product is not offered now. Set `isActive` to true to offer it."),
  savings_product_limit_reached: entry(
    422,
    "state_error",
    "The account has the maximum number of products. Change one of them.",
  ),
  instalment_too_small: entry(
    422,
    "invalid_request_error",
    "An instalment would be less than 200 naira. Choose a frequency with fewer instalments.",
  ),
  savings_plan_state_invalid: entry(
    422,
    "state_error",
    "The instalment plan's state does not allow this. The message names the state and what it allows.",
  ),
  test_clock_not_ready: entry(422, "state_error", "The test clock is not ready."),
  test_clock_advancing: entry(
    422,
    "state_error",
    "The customer's test clock is advancing. Wait for `test_clock.ready`.",
  ),
  test_clock_full: entry(422, "state_error", "A test clock can have at most 10,000 customers. Use another clock."),
  request_timeout: entry(408, "invalid_request_error", "The request did not arrive completely in time. Send it again."),
  host_invalid: entry(
    400,
    "invalid_request_error",
    "An HTTP/1.1 request needs the header `Host` exactly once, with a name or an address and an optional port. The connection closes after this response.",
  ),
  transfer_encoding_unsupported: entry(
    501,
    "invalid_request_error",
    "A body needs `Content-Length` or `Transfer-Encoding: chunked`; no other transfer coding is supported. The connection closes after this response.",
  ),
  request_malformed: entry(400, "invalid_request_error", "The received data is not a valid HTTP request."),
  internal_error: entry(500, "api_error", "Something went wrong on our side. The request ID helps us find it."),
  service_unavailable: entry(
    503,
    "api_error",
    "The service cannot reach its database, is overloaded, or has a clock that disagrees with its database's. Try again after `Retry-After` seconds.",
  ),
  outcome_unknown: entry(
    503,
    "api_error",
    "The connection to the database was lost during the commit: the request may have been done. Look for the object that it creates, or send it again with the same Idempotency-Key: then it is done once.",
  ),
  query_too_slow: entry(
    503,
    "api_error",
    "A list took too long to read. Use other filters or a narrower range of time, or ask for a smaller page.",
  ),
  member_state_invalid: entry(
    422,
    "state_error",
    "The team does not allow this: an account keeps at least one owner and has at most 200 members.",
  ),
  key_state_invalid: entry(
    422,
    "state_error",
    "The status of the key does not allow this: only an active key can be rolled, and a form makes one key.",
  ),
  key_limit_reached: entry(
    422,
    "state_error",
    "An account has at most 100 working API keys in each environment: revoke one first.",
  ),
  sign_in_limit_reached: entry(
    429,
    "rate_limit_error",
    "Too many codes or invitations were sent to this address, or asked for from this network or account. Try again in an hour; an invitation in a day. A passkey needs no code.",
  ),
  sign_in_invalid: entry(
    401,
    "authentication_error",
    "The code, the link or the passkey is wrong, was used already or has expired. Ask for a new code.",
  ),
  role_insufficient: entry(
    403,
    "permission_error",
    "The role of the signed-in member does not include this. An owner or an admin of the account can change it.",
  ),
  sign_in_required: entry(
    401,
    "authentication_error",
    "The dashboard needs a sign-in: the session has ended, or the action wants a sign-in of the last 15 minutes.",
  ),
  form_invalid: entry(
    403,
    "permission_error",
    "A form of the dashboard was sent from another site, by another session or for another account. Load the page again.",
  ),
} as const satisfies Record<string, Entry>

export type ProblemCode = keyof typeof CATALOGUE
