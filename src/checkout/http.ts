import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { tenantOf } from "../db/tenant.ts"
import { bind } from "../http/Endpoint.ts"
import { equals, listOf } from "../http/lists.ts"
import { Origin } from "../http/Origin.ts"
import { type PublicRequest, type PublicResponse, publicRoute } from "../http/publicRoutes.ts"
import { declineInWords } from "../paying/declines.ts"
import { declineShown, type FormState, faultsShown } from "../paying/form.ts"
import { answer, firstFault, page, pageOptions, readFields, seeOther, wantsJson } from "../paying/page.ts"
import { paymentInWords } from "../paying/settled.ts"
import { type Fault, type Fields, readSubmission, typedDetails } from "../paying/submission.ts"
import { declined, type Problem, problem } from "../problem.ts"
import { hashToken } from "../secret/linkTokens.ts"
import { formatInstant } from "../time.ts"
import { checkoutApi } from "./api.ts"
import { CheckoutLinks } from "./CheckoutLinks.ts"
import { renderSession, type SessionRow, sessions } from "./checkout.ts"
import { createSession } from "./checkouts.ts"
import { expireSession, standing } from "./closing.ts"
import { type Completed, submitCheckout } from "./completing.ts"
import { formActions, successUrl } from "./urls.ts"
import { type Basics, formPage, overPage, type ReadSession, readBasics, readSession, waitingPage } from "./view.ts"

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

/** Reads as the session's own tenant. */
const reading = <A, E, R>(session: SessionRow, work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(TenantDatabase, (database) => database.reading(tenantOf(session), work))

const find = Effect.fnUntraced(function* (token: string) {
  const session = yield* findSession(token)
  return yield* reading(session, readBasics(session))
})

/** A page that is made from everything that there is to know of a session. */
const shown = (basics: Basics, make: (read: ReadSession) => PublicResponse) =>
  Effect.map(reading(basics.session, readSession(basics)), make)

const formResponse = (status: number, state?: FormState) => (read: ReadSession) =>
  page(status, formPage(read, state), formActions(read.session.success_url))

/** The page as the session stands. `stateOf`: of its form. */
const standingPage = (read: ReadSession, state?: FormState) => {
  const { status, state: at } = read.session
  if (status !== "open") return page(status === "completed" ? 200 : 410, overPage(read))
  return at === "open.paying" ? page(200, waitingPage(read)) : formResponse(200, state)(read)
}

const show = ({ parts: [token] }: PublicRequest) =>
  Effect.flatMap(find(token!), (basics) => shown(basics, (read) => standingPage(read)))

/** Where buyers come back to from a rail's page, and where a payment under way is looked at again. */
const comeBack = Effect.fnUntraced(function* ({ parts: [token], headers }: PublicRequest) {
  const basics = yield* find(token!)
  const { session } = basics
  const next = session.status === "completed" ? successUrl(session.success_url, session.id) : null
  if (wantsJson(headers)) {
    const status = session.state === "open.paying" ? "pending" : session.status
    return answer({ status, redirect_url: next })
  }
  if (next !== null) return seeOther(next)
  return yield* shown(basics, (read) =>
    standingPage(
      read,
      read.charge?.status === "failed" ? { refusal: declineInWords(read.charge.failure_code) } : undefined,
    ),
  )
})

/** Why a session that is over takes nothing more. */
const over = ({ session, charge }: Completed) =>
  problem(
    "checkout_session_not_open",
    charge?.status === "succeeded" ? `${standing(session)} ${paymentInWords(charge)}.` : standing(session),
  )

/** The envelope in which a program is told how its submission ended. */
const answerOf = Effect.fnUntraced(function* (before: Basics, completed: Completed) {
  const { session, charge, own, busy } = completed
  if (busy) {
    const since = formatInstant(charge!.created_at)
    return yield* problem("charge_in_progress", `A payment has been under way since ${since}: wait for its outcome.`)
  }
  if (session.status === "completed" && own)
    return answer({ status: "completed", redirect_url: successUrl(session.success_url, session.id) })
  if (session.status !== "open") return yield* over(completed)
  if (charge?.status === "failed") return yield* declined(charge.failure_code!, declineInWords(charge.failure_code))
  const { url } = yield* Origin
  return answer({ status: "pending", redirect_url: `${url}${before.path}/return` })
})

/** The page on which a browser learns how its submission ended. */
const pageOf = (before: Basics, { session, charge, own, busy }: Completed, fields: Fields) => {
  if (busy || session.state === "open.paying") return Effect.succeed(seeOther(`${before.path}/return`))
  if (session.status === "completed" && own)
    return Effect.succeed(seeOther(successUrl(session.success_url, session.id)))
  const isKnown = session.customer_id !== null && !session.customer_is_new
  const after = { ...before, session, isKnown }
  return session.status === "open"
    ? shown(
        after,
        formResponse(402, {
          ...declineShown(charge!.failure_code, session.payment_method_id!),
          typed: typedDetails(fields),
        }),
      )
    : shown(after, (read) => page(422, overPage(read)))
}

/** The form again, where a refusal is one that the buyer can mend in it; else the refusal. */
const formAfter = (before: Basics, refusal: Problem, fields: Fields, methodId: string) => {
  const typed = typedDetails(fields)
  if (refusal.code === "card_declined")
    return shown(before, formResponse(402, { ...declineShown(refusal.failureCode, methodId), typed }))
  if (refusal.code === "amount_changed") return shown(before, formResponse(422, { refusal: refusal.message, typed }))
  return refusal.param === "payment_method"
    ? shown(before, formResponse(400, { errors: [{ field: "payment_method", message: refusal.message }], typed }))
    : Effect.fail(refusal)
}

/** What is wrong with a submission; where the session is over, that it is. */
const faulty = Effect.fnUntraced(function* (
  before: Basics,
  faults: ReadonlyArray<Fault>,
  fields: Fields,
  json: boolean,
) {
  const { session } = before
  if (session.status !== "open") {
    const { charge } = yield* reading(session, readSession(before))
    const ended: Completed = { session, charge, own: false, busy: false }
    return json ? yield* over(ended) : yield* pageOf(before, ended, fields)
  }
  if (json) return yield* firstFault(faults, fields)
  return yield* shown(before, formResponse(400, { ...faultsShown(faults), typed: typedDetails(fields) }))
})

const complete = Effect.fnUntraced(function* (request: PublicRequest) {
  const json = wantsJson(request.headers)
  const fields = yield* readFields(request)
  const before = yield* find(request.parts[0]!)
  const { session, setting, isKnown } = before
  const submitted = readSubmission(fields, { asksDetails: !isKnown, now: setting.now })
  if ("faults" in submitted) return yield* faulty(before, submitted.faults, fields, json)
  const submitting = submitCheckout(session, submitted)
  if (json) return yield* Effect.flatMap(submitting, (ended) => answerOf(before, ended))
  return yield* submitting.pipe(
    Effect.flatMap((ended) => pageOf(before, ended, fields)),
    Effect.catchTag("Problem", (refusal) => formAfter(before, refusal, fields, submitted.methodId)),
  )
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
