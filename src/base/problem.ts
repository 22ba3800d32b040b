/** Problem is a refusal by its code in the catalogue (catalogue.ts), and the functions that make one. */
import { Effect, Schema } from "effect"
import { CATALOGUE, type ProblemCode } from "./catalogue.ts"

/** A refusal that the caller can act on. Everything else in the program is a defect. */
export class Problem extends Schema.TaggedError<Problem>()("Problem", {
  code: Schema.Literals(Object.keys(CATALOGUE) as [ProblemCode, ...Array<ProblemCode>]),
  message: Schema.String,
  param: Schema.NullOr(Schema.String),
  /**
   * Differs from the catalogue's in two cases: a reference in a body is unknown (400 `resource_missing`, decision B3); a messenger's
   * signature is wrong (403 `signature_invalid`).
   */
  status: Schema.Int,
  /** Why a payment method was declined (`card_declined`). */
  failureCode: Schema.NullOr(Schema.String),
  /** When to retry, in seconds from now, if known. */
  retryAfterS: Schema.optionalKey(Schema.Int),
}) {}

/** Whether an error is a refusal, as a type guard. */
export const isProblem = (error: { readonly _tag: string }): error is Problem => error._tag === "Problem"

export const problem = (code: ProblemCode, message: string, param: string | null = null): Problem =>
  new Problem({ code, message, param, status: CATALOGUE[code].status, failureCode: null })

/** Adds to an error when to retry, in seconds from now. */
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

/** Looks up a reference in a body parameter: a missing object is then an error of the body (decision B3). */
export const asReference = <A, E, R>(lookUp: Effect.Effect<A, E | Problem, R>, param: string) =>
  Effect.mapError(lookUp, (error) =>
    error instanceof Problem && error.code === "resource_missing"
      ? new Problem({ ...error, message: error.message, param, status: 400 })
      : error,
  )

/** Runs `work`. If it fails because of an object's state (422), errors of `checks` take precedence (decision A6). */
export const checkBeforeStateError = <A, B, E, E2, R, R2>(
  checks: Effect.Effect<B, E, R>,
  work: Effect.Effect<A, E2, R2>,
) =>
  Effect.tapError(work, (error) =>
    error instanceof Problem && error.status === 422 ? checks : Effect.succeed(undefined),
  )

export const invalid = (param: string, message: string): Problem => problem("parameter_invalid", message, param)
