/** The pages of checkout sessions. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ChargeRow } from "../charge/charge.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { tenantOf } from "../db/tenant.ts"
import { Origin } from "../http/Origin.ts"
import { paymentInWords } from "../paying/settled.ts"
import { type Ended, payingRoutes } from "../paying/site.ts"
import { problem } from "../problem.ts"
import { hashToken } from "../secret/linkTokens.ts"
import type { SessionRow } from "./checkout.ts"
import { endedInWords } from "./closing.ts"
import { type Completed, submitCheckout } from "./submit.ts"
import { formActions, successUrl } from "./urls.ts"
import { type Basics, formPage, overPage, type ReadSession, readBasics, readSession, waitingPage } from "./view.ts"

/** Reads as the session's own tenant. */
const reading = <A, E, R>(session: SessionRow, work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(TenantDatabase, (database) => database.reading(tenantOf(session), work))

/** The session that a token leads to, whosever it is. */
const find = Effect.fnUntraced(function* (token: string) {
  const sql = yield* SqlClient.SqlClient
  const [session] = yield* sql<SessionRow>`SELECT * FROM checkout_session WHERE token_hash = ${hashToken(token)}`
  if (session === undefined)
    return yield* problem(
      "resource_missing",
      "There is no checkout at this address: check that the link is whole, or ask for a new one.",
    )
  return yield* reading(session, readBasics(session))
})

/** A document that is made from everything that there is to know of a session. */
const made = (basics: Basics, make: (read: ReadSession) => string) =>
  Effect.map(reading(basics.session, readSession(basics)), make)

const goesTo = ({ session }: Basics): string | null =>
  session.status === "completed" ? successUrl(session.success_url, session.id) : null

/** Why a session that is over takes nothing more. */
const notOpen = (session: SessionRow, charge: ChargeRow | undefined) =>
  problem(
    "checkout_session_not_open",
    charge?.status === "succeeded" ? `${endedInWords(session)} ${paymentInWords(charge)}.` : endedInWords(session),
  )

/** How a submission ended, by its own payment. */
const endOf = Effect.fnUntraced(function* (basics: Basics, { session, charge, busyWith, own }: Completed) {
  if (busyWith !== undefined) return { kind: "busy", since: busyWith.created_at } satisfies Ended
  if (own && session.status === "completed") {
    const url = successUrl(session.success_url, session.id)
    return { kind: "done", goesTo: url, answer: { status: "completed", redirect_url: url } } satisfies Ended
  }
  if (own && charge?.status === "failed")
    return {
      kind: "declined",
      code: charge.failure_code!,
      paidKobo: 0,
      pendingKobo: 0,
      failedKobo: charge.amount_kobo,
    } satisfies Ended
  if (session.status !== "open") return { kind: "too_late", refusal: notOpen(session, charge) } satisfies Ended
  const path = `${basics.path}/return`
  const { url } = yield* Origin
  return { kind: "done", goesTo: path, answer: { status: "pending", redirect_url: `${url}${path}` } } satisfies Ended
})

export const checkoutRoutes = payingRoutes({
  prefix: "/checkout",
  find,
  setting: ({ setting }) => setting,
  standing: ({ session, setting, paying }) => {
    if (session.status === "completed") return { kind: "over", status: 200 }
    if (paying !== undefined) return { kind: "under_way", since: paying.created_at }
    return session.status === "open" && session.expires_at > setting.now
      ? { kind: "form" }
      : { kind: "over", status: 410 }
  },
  status: ({ session, paying }) => (session.status === "open" && paying !== undefined ? "pending" : session.status),
  goesTo,
  asksDetails: ({ isKnown }) => !isKnown,
  leadsTo: ({ session }) => formActions(session.success_url),
  form: (basics, state) => made(basics, (read) => formPage(read, state)),
  waiting: (basics) => Effect.succeed(waitingPage(basics)),
  over: (basics) => made(basics, overPage),
  refusal: (basics) =>
    Effect.map(reading(basics.session, readSession(basics)), ({ session, charge }) => notOpen(session, charge)),
  lastDecline: (basics) =>
    Effect.map(reading(basics.session, readSession(basics)), ({ charge }) =>
      charge?.status === "failed"
        ? { code: charge.failure_code!, paidKobo: 0, pendingKobo: 0, failedKobo: charge.amount_kobo }
        : null,
    ),
  submit: (basics, submitted) =>
    Effect.flatMap(submitCheckout(basics.session, submitted), (completed) => endOf(basics, completed)),
})
