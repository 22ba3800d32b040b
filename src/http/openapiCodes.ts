/** The error codes of an operation in the OpenAPI document: its own, and those of every operation of its kind. */
import type { ProblemCode } from "../base/catalogue.ts"
import type { Declaration } from "./Endpoint.ts"

const EVERYWHERE: ReadonlyArray<ProblemCode> = [
  "https_required",
  "key_missing",
  "key_invalid",
  "key_revoked",
  "rate_limited",
  "too_many_in_flight",
  "parameter_unknown",
  "request_malformed",
  "host_invalid",
  "transfer_encoding_unsupported",
  "request_timeout",
  "internal_error",
  "service_unavailable",
]
const WITH_ACCOUNT_KEY: ReadonlyArray<ProblemCode> = ["key_expired", "key_environment_mismatch", "live_access_required"]
const OF_READS: ReadonlyArray<ProblemCode> = ["parameter_invalid", "query_too_slow", "account_moving"]
const OF_WRITES: ReadonlyArray<ProblemCode> = [
  "content_type_invalid",
  "json_invalid",
  "request_too_large",
  "parameter_missing",
  "parameter_invalid",
  "reset_in_progress",
  "lock_timeout",
  "account_moving",
  "outcome_unknown",
]
const WITH_KEY: ReadonlyArray<ProblemCode> = [
  "idempotency_key_reused",
  "idempotency_request_in_progress",
  "idempotency_response_not_kept",
]

/** The refusals of keys that may not call an endpoint. */
const accessCodes = ({ access }: Declaration): ReadonlyArray<ProblemCode> => {
  if (access === "public") return []
  if (access === "administrator")
    return ["administrator_key_required", "secret_key_required", "key_environment_mismatch"]
  if (access === "publishable") return WITH_ACCOUNT_KEY
  if (access === "secret" || access === "any") return [...WITH_ACCOUNT_KEY, "secret_key_required"]
  return [...WITH_ACCOUNT_KEY, "secret_key_required", "insufficient_scope"]
}

/** Whether a code is about keys: requests without a key never get it. */
const isOfKeys = (code: ProblemCode): boolean => code.startsWith("key_")

export const codesOf = (declaration: Declaration): ReadonlyArray<ProblemCode> => [
  ...(declaration.access === "public" ? EVERYWHERE.filter((code) => !isOfKeys(code)) : EVERYWHERE),
  ...accessCodes(declaration),
  ...(declaration.vertical === undefined ? [] : ["feature_unavailable" as const]),
  ...(declaration.method === "GET" ? OF_READS : OF_WRITES),
  ...(declaration.method === "POST" ? WITH_KEY : []),
  ...(declaration.codes ?? []),
  // A failed clock refuses requests like an advancing one.
  ...(declaration.codes?.includes("test_clock_advancing") && !declaration.codes.includes("test_clock_not_ready")
    ? ["test_clock_not_ready" as const]
    : []),
]
