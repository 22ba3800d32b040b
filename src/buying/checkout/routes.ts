/** The pages of checkout sessions. */
import { Effect } from "effect"
import { problem } from "../../base/problem.ts"
import type { ChargeRow } from "../../billing/charge/charge.ts"
import { TenantDatabase } from "../../db/TenantDatabase.ts"
import { tenantOf } from "../../db/tenant.ts"
import { Origin } from "../../http/Origin.ts"
import { findByToken } from "../../security/secret/linkTokens.ts"
import { type Declined, lateOf } from "../payment_page/declines.ts"
import { openPageOf } from "../payment_page/hosted.ts"
import { payingRoutes, type SubmissionResult } from "../payment_page/routes.ts"
import { paymentInWords } from "../payment_page/settled.ts"
import { type SessionRow, sessions } from "./checkout.ts"
import { endedInWords } from "./closing.ts"
import { type Completed, submitCheckout } from "./submit.ts"
import { formActions, successUrl } from "./urls.ts"
import { type Basics, formPage, overPage, type ReadSession, readBasics, readSession } from "./view.ts"

/** Reads as the session's own tenant. */
const reading = <A, E, R>(session: SessionRow, work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(TenantDatabase, (database) => database.reading(tenantOf(session), work))

const NO_SESSION = problem(
  "resource_missing",
  "There is no checkout at this address: check that the link is complete, or ask for a new one.",
)

const find = Effect.fnUntraced(function* (token: string) {
  const session = yield* findByToken(sessions, "token_hash", token, NO_SESSION)
  return yield* reading(session, readBasics(session))
})

/** Renders a document from all data of a session. */
const renderWith = (basics: Basics, make: (read: ReadSession) => string) =>
  Effect.map(reading(basics.session, readSession(basics)), make)

const goesTo = ({ session }: Basics): string | null =>
  session.status === "completed" ? successUrl(session.success_url, session.id) : null

/** Explains why a session that is over accepts nothing more. */
const notOpen = (session: SessionRow, charge: ChargeRow | undefined) =>
  problem(
    "checkout_session_not_open",
    charge?.status === "succeeded" && charge.purpose === "sale"
      ? `${endedInWords(session)} ${paymentInWords(charge)}.`
      : endedInWords(session),
  )

/** Describes why a payment was declined; null: it was not. A setup that saved no reusable method counts as declined. */
const declineOf = (charge: ChargeRow): Declined | null => {
  const { status, purpose, failure_code, amount_kobo, payment_method } = charge
  const nothing = { paidKobo: 0, pendingKobo: 0, failedKobo: purpose === "sale" ? amount_kobo : 0 }
  if (status === "failed") return { code: failure_code!, ...nothing, ...lateOf([charge]) }
  return status === "succeeded" && purpose === "verification" && payment_method === null
    ? { code: "payment_method_inactive", ...nothing, returnedKobo: amount_kobo }
    : null
}

/** Returns the result of a submission. */
const endOf = Effect.fnUntraced(function* (basics: Basics, { session, charge, busyWith, own }: Completed) {
  const goOn = busyWith ?? (own ? charge : undefined)
  const page = goOn === undefined ? null : openPageOf(goOn)
  // The rail's page takes the payment, no matter which request opened it.
  if (page !== null)
    return { kind: "done", goesTo: page, answer: { status: "pending", redirect_url: page } } satisfies SubmissionResult
  if (busyWith !== undefined) return { kind: "busy", since: busyWith.created_at } satisfies SubmissionResult
  if (own && session.status === "completed") {
    const url = successUrl(session.success_url, session.id)
    return { kind: "done", goesTo: url, answer: { status: "completed", redirect_url: url } } satisfies SubmissionResult
  }
  const declined = own && charge !== undefined ? declineOf(charge) : null
  if (declined !== null) return { kind: "declined", ...declined } satisfies SubmissionResult
  if (session.status !== "open")
    return { kind: "too_late", refusal: notOpen(session, charge) } satisfies SubmissionResult
  // The rail's page is not open yet, so the buyer is not returning from it.
  const path = `${basics.path}/return${charge?.hosted === true ? "?look" : ""}`
  const { url } = yield* Origin
  return {
    kind: "done",
    goesTo: path,
    answer: { status: "pending", redirect_url: `${url}${path}` },
  } satisfies SubmissionResult
})

export const checkoutRoutes = payingRoutes({
  prefix: "/checkout",
  find,
  context: ({ context }) => context,
  pageState: ({ session, context, paying }) => {
    if (session.status === "completed") return { kind: "over", status: 200 }
    if (paying !== undefined) return { kind: "under_way", charge: paying }
    return session.status === "open" && session.expires_at > context.now
      ? { kind: "form" }
      : { kind: "over", status: 410 }
  },
  status: ({ session, paying }) => (session.status === "open" && paying !== undefined ? "pending" : session.status),
  goesTo,
  asksDetails: ({ isKnown }) => !isKnown,
  asksEmail: ({ isKnown, hasEmail }) => isKnown && !hasEmail,
  underWay: ({ paying, late }) => paying ?? late,
  leadsTo: ({ session }) => formActions(session.success_url),
  form: (basics, state) => renderWith(basics, (read) => formPage(read, state)),
  over: (basics) => renderWith(basics, overPage),
  refusal: (basics) =>
    Effect.map(reading(basics.session, readSession(basics)), ({ session, charge }) => notOpen(session, charge)),
  lastDecline: (basics) =>
    Effect.map(reading(basics.session, readSession(basics)), ({ charge }) =>
      charge === undefined ? null : declineOf(charge),
    ),
  submit: (basics, submitted) =>
    Effect.flatMap(submitCheckout(basics.session, submitted, basics.context.hostedBy), (completed) =>
      endOf(basics, completed),
    ),
})
