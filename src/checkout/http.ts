import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { tenantOf } from "../db/tenant.ts"
import { bind } from "../http/Endpoint.ts"
import { equals, listOf } from "../http/lists.ts"
import { type PublicRequest, publicRoute } from "../http/publicRoutes.ts"
import { declineInWords } from "../paying/declines.ts"
import { answer, firstFault, page, pageOptions, readFields, seeOther, wantsJson } from "../paying/page.ts"
import { paymentInWords } from "../paying/settled.ts"
import { type Fields, readSubmission, typedDetails } from "../paying/submission.ts"
import { declined, Problem, problem } from "../problem.ts"
import { hashToken } from "../secret/linkTokens.ts"
import { checkoutApi } from "./api.ts"
import { CheckoutLinks } from "./CheckoutLinks.ts"
import { renderSession, type SessionRow, sessions } from "./checkout.ts"
import { createSession } from "./checkouts.ts"
import { expireSession, standing } from "./closing.ts"
import { type Completed, submitCheckout } from "./completing.ts"
import { formActions, successUrl } from "./urls.ts"
import { type FormState, formPage, overPage, type ReadSession, readSession, waitingPage } from "./view.ts"

const render = (row: SessionRow) => Effect.map(CheckoutLinks, (links) => renderSession(row, links.url(row.id)))

export const checkoutEndpoints = [
  bind(checkoutApi.create, {
    kind: "write",
    run: (request) => Effect.flatMap(createSession(request, request.body), render),
  }),
  bind(checkoutApi.list, {
    kind: "read",
    run: (request) =>
      Effect.flatMap(CheckoutLinks, (links) =>
        listOf(sessions, request, (row) => renderSession(row, links.url(row.id)), [
          equals("customer_id", request.query.customer),
          equals("status", request.query.status),
        ]),
      ),
  }),
  bind(checkoutApi.get, {
    kind: "read",
    run: (request) => Effect.flatMap(sessions.get(request, request.id), render),
  }),
  bind(checkoutApi.expire, {
    kind: "write",
    run: (request) => Effect.flatMap(expireSession(request, request.id), render),
  }),
]

/** The session that a link leads to, whosever it is. */
const findSession = Effect.fnUntraced(function* (token: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<SessionRow>`SELECT * FROM checkout_session WHERE token_hash = ${hashToken(token)}`
  return (
    row ??
    (yield* problem(
      "resource_missing",
      "There is no checkout at this address: check that the link is whole, or ask for a new one.",
    ))
  )
})

/** Reads what the pages of a session show, as its tenant. */
const read = Effect.fnUntraced(function* (token: string) {
  const found = yield* findSession(token)
  const { reading } = yield* TenantDatabase
  const work = Effect.flatMap(sessions.get(found, found.id), readSession)
  return yield* reading(tenantOf(found), work)
})

const form = (status: number, shown: ReadSession, state?: FormState) =>
  page(status, formPage(shown, state), formActions(shown.session.success_url))

/** How a session stands. Its time is up when it is up, whether or not its timer has fired yet. */
const statusOf = ({ session, setting: { now } }: ReadSession) =>
  session.state === "open.paying"
    ? "pending"
    : session.status === "open" && session.expires_at <= now
      ? "expired"
      : session.status

/** The page as the session stands. `state`: of its form. */
const standingPage = (shown: ReadSession, state?: FormState) => {
  const status = statusOf(shown)
  if (status === "pending") return page(200, waitingPage(shown))
  return status === "open" ? form(200, shown, state) : page(status === "completed" ? 200 : 410, overPage(shown))
}

const show = ({ parts: [token] }: PublicRequest) => Effect.map(read(token!), (shown) => standingPage(shown))

/** Where buyers come back to from a rail's page, and where a payment under way is looked at again. */
const comeBack = ({ parts: [token], headers }: PublicRequest) =>
  Effect.map(read(token!), (shown) => {
    const { session, charge } = shown
    const next = session.status === "completed" ? successUrl(session.success_url, session.id) : null
    if (wantsJson(headers)) return answer({ status: statusOf(shown), redirect_url: next })
    if (next !== null) return seeOther(next)
    return standingPage(
      shown,
      charge?.status === "failed" ? { refusal: declineInWords(charge.failure_code) } : undefined,
    )
  })

/** Why a session that is over takes nothing more. */
const over = ({ session, charge }: Completed) =>
  problem(
    "checkout_session_not_open",
    charge?.status === "succeeded" ? `${standing(session)} ${paymentInWords(charge)}.` : standing(session),
  )

/** The envelope in which a program is told how its submission ended. */
const answerOf = (path: string, completed: Completed) => {
  const { session, charge, own, busy } = completed
  if (busy)
    return problem(
      "charge_in_progress",
      `A payment has been under way since ${new Date(charge!.created_at).toISOString()}: wait for its outcome.`,
    )
  if (session.status === "completed" && own)
    return answer({ status: "completed", redirect_url: successUrl(session.success_url, session.id) })
  if (session.status !== "open") return over(completed)
  if (charge?.status === "failed") return declined(charge.failure_code!, declineInWords(charge.failure_code))
  return answer({ status: "pending", redirect_url: `${path}/return` })
}

/** What the form shows again after a decline: a one-time code is asked for with everything else kept. */
const afterDecline = (code: string | null, methodId: string, fields: Fields): FormState => ({
  refusal: code === "authentication_required" ? null : declineInWords(code),
  typed: typedDetails(fields),
  ...(code === "authentication_required" || code === "authentication_failed"
    ? { asksOtp: true, chosen: methodId }
    : {}),
})

/** The page on which a browser learns how its submission ended. */
const pageOf = (shown: ReadSession, { session, charge, own, busy }: Completed, fields: Fields) => {
  if (busy || session.state === "open.paying") return seeOther(`${shown.path}/return`)
  if (session.status === "completed" && own) return seeOther(successUrl(session.success_url, session.id))
  if (session.status !== "open") return page(422, overPage(shown))
  return form(402, shown, afterDecline(charge!.failure_code, session.payment_method_id!, fields))
}

/** The form again, where a refusal is one that the buyer can mend in it. */
const formAfter = (shown: ReadSession, refusal: Problem, fields: Fields, methodId: string) => {
  if (refusal.code === "card_declined") return form(402, shown, afterDecline(refusal.failureCode, methodId, fields))
  if (refusal.code === "amount_changed")
    return form(422, shown, { refusal: refusal.message, typed: typedDetails(fields) })
  return refusal.param === "payment_method"
    ? form(400, shown, {
        errors: [{ field: "payment_method", message: refusal.message }],
        typed: typedDetails(fields),
      })
    : undefined
}

const complete = Effect.fnUntraced(function* (request: PublicRequest) {
  const { parts, headers } = request
  const json = wantsJson(headers)
  const fields = yield* readFields(request)
  const before = yield* read(parts[0]!)
  const { session, setting, isKnown } = before
  const submitted = readSubmission(fields, { asksDetails: !isKnown, now: setting.now })
  const isOpen = session.status === "open"
  if ("faults" in submitted && isOpen) {
    if (json) return yield* firstFault(submitted.faults, fields)
    const errors = submitted.faults.map(({ field, problem: { message } }) => ({ field, message }))
    return form(400, before, { errors, typed: typedDetails(fields) })
  }
  if ("faults" in submitted) {
    const ended: Completed = { session, charge: before.charge, own: false, busy: false }
    return json ? yield* over(ended) : pageOf(before, ended, fields)
  }
  const ended = yield* submitCheckout(tenantOf(session), session.id, submitted).pipe(
    Effect.catchTag("Problem", (refusal) => {
      const shown = json ? undefined : formAfter(before, refusal, fields, submitted.methodId)
      return shown === undefined ? Effect.fail(refusal) : Effect.succeed(shown)
    }),
  )
  if ("contentType" in ended) return ended
  if (!json) return pageOf(yield* read(parts[0]!), ended, fields)
  const result = answerOf((yield* CheckoutLinks).url(session.id), ended)
  return result instanceof Problem ? yield* result : result
})

const at = (rest = "") => new RegExp(`^/checkout/([^/]+)${rest}$`)

/** Who reloads the address that the form was sent to. */
const goBack = ({ parts: [token] }: PublicRequest) =>
  Effect.succeed(seeOther(`/checkout/${encodeURIComponent(token!)}`))

export const checkoutRoutes = [
  publicRoute("/checkout/:token", at(), { GET: show }, pageOptions),
  publicRoute("/checkout/:token/return", at("/return"), { GET: comeBack }, pageOptions),
  publicRoute("/checkout/:token/complete", at("/complete"), { GET: goBack, POST: complete }, pageOptions),
]
