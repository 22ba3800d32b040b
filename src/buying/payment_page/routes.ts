/**
 * Builds the routes of a payment page, shared by checkout sessions, payment links and instalment plans: the page, its submission, and the
 * return from the rail's page. Browsers and programs (JSON) use the same flow (decision G8).
 */
import { Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { Json } from "../../base/json.ts"
import { declined, type Problem, problem } from "../../base/problem.ts"
import { formatInstant } from "../../base/time.ts"
import type { ChargeRow } from "../../billing/charge/charge.ts"
import { tenantOf } from "../../db/tenant.ts"
import { orMade } from "../../http/failures.ts"
import { Origin } from "../../http/Origin.ts"
import { page, refusedPage, seeOther, wantsJson } from "../../http/page.ts"
import { type PublicRequest, type PublicResponse, type PublicRoute, publicRoute } from "../../http/publicRoutes.ts"
import { pendingPage } from "../../pages/says.ts"
import type { PaymentContext } from "./context.ts"
import { type Declined, declineInWords } from "./declines.ts"
import { answer, firstFault, readFields } from "./fields.ts"
import { declineShown, type FormState, faultsShown, tickedOf } from "./form.ts"
import { checkWithRail, openPageOf, originsOf } from "./hosted.ts"
import { type Fault, type Fields, readSubmission, type Submission, typedFields } from "./submission.ts"

/** The state of a page. */
export type PageState =
  /** It accepts a payment, or a payment method. */
  | { readonly kind: "form" }
  /** A payment is in progress: the page refuses a second one. */
  | { readonly kind: "under_way"; readonly charge: ChargeRow }
  /** It accepts nothing any more. `status`: of the response that shows it. */
  | { readonly kind: "over"; readonly status: 200 | 410 }

/** The result of a submission. */
export type SubmissionResult =
  /** `goesTo`: where a browser is redirected. `answer`: the response to a program. */
  | { readonly kind: "done"; readonly goesTo: string; readonly answer: Json }
  | ({ readonly kind: "declined" } & Declined)
  /** The page accepts nothing any more, or nothing of this kind. */
  | { readonly kind: "too_late"; readonly refusal: Problem }
  /** The payment of another request is still in progress after the longest wait. */
  | { readonly kind: "busy"; readonly since: number }

type Work<A, R> = Effect.Effect<A, Problem | SqlError.SqlError, R>

/** A kind of payment page. `S`: the data of one page; `R`, `R2`: the services that reading and submitting need. */
export interface PageRoutes<S, R, R2> {
  /** Such as `/checkout`. */
  readonly prefix: string
  /** The path after the token in the page's address, such as `/pay`; empty by default. */
  readonly suffix?: string
  /** The unit of its amounts; kobo by default. */
  readonly amountsIn?: "naira"
  /** Finds the page of a token; fails with `resource_missing`. */
  readonly find: (token: string) => Work<S, R>
  readonly context: (found: S) => PaymentContext
  readonly pageState: (found: S) => PageState
  /** The status that a program gets. */
  readonly status: (found: S) => string
  /** Where a returning browser is redirected; null: the page itself shows the result. */
  readonly goesTo: (found: S) => string | null
  /** Whether the buyer's details are asked for. */
  readonly asksDetails: (found: S) => boolean
  /** Whether the customer exists without an e-mail address: rails need one. */
  readonly asksEmail: (found: S) => boolean
  /** The payment in progress, if any, even if the page is over. */
  readonly underWay: (found: S) => ChargeRow | undefined
  /** Other origins that its form may redirect to. */
  readonly leadsTo: (found: S) => ReadonlyArray<string>
  /** Render the form, and a page that is over. */
  readonly form: (found: S, state: FormState, search: URLSearchParams) => Work<string, R>
  readonly over: (found: S) => Work<string, R>
  /** Why a page that is over accepts nothing. */
  readonly refusal: (found: S) => Work<Problem, R>
  /** Why the newest payment on the page was declined; null: it was not. */
  readonly lastDecline: (found: S) => Work<Declined | null, R>
  readonly submit: (found: S, submitted: Submission) => Work<SubmissionResult, R2>
}

/** The services that check a payment with its rail and build redirects. */
type Looking =
  | Origin
  | Effect.Services<ReturnType<typeof checkWithRail>>
  | Effect.Services<ReturnType<typeof originsOf>>

const underWay = (since: number): Problem =>
  problem("charge_in_progress", `A payment has been under way since ${formatInstant(since)}: wait for its outcome.`)

const receivedOf = ({ attention }: ChargeRow) =>
  attention === null ? null : { amountKobo: attention.received_amount, currency: attention.currency }

const NOTHING = new URLSearchParams()

export const noSuchPage = problem("resource_missing", "There is no such page: check that the link is complete.")

/** The message for a wrong ID of a payment method, which the buyer chose and did not type. */
const CHOOSE = "Choose one of the payment methods."

/** Builds the routes of a kind of page. */
export const payingRoutes = <S, R, R2>(routes: PageRoutes<S, R, R2>): ReadonlyArray<PublicRoute<R | R2 | Looking>> => {
  const { prefix, suffix = "", amountsIn = "kobo" } = routes
  const pathOf = ({ parts: [token] }: PublicRequest): string => `${prefix}/${encodeURIComponent(token!)}${suffix}`
  const find = ({ parts: [token] }: PublicRequest) => routes.find(token!)

  /** Renders the page of a payment in progress. */
  const waitingPage = (request: PublicRequest, context: PaymentContext, charge: ChargeRow): string =>
    pendingPage({
      ...context,
      amountKobo: charge.amount_kobo,
      method: charge.payment_method,
      goOn: openPageOf(charge),
      received: receivedOf(charge),
      since: charge.created_at,
      returnPath: `${pathOf(request)}/return`,
    })

  /** Answers with the page in its present state. `state`: of its form. `status`: of the response, if it is not the page's own. */
  const shown = Effect.fnUntraced(function* (
    request: PublicRequest,
    found: S,
    state: FormState = {},
    status = 200,
    search = NOTHING,
  ) {
    const current = routes.pageState(found)
    const context = routes.context(found)
    if (current.kind === "over") return page(status === 200 ? current.status : status, yield* routes.over(found))
    if (current.kind === "under_way") return page(status, waitingPage(request, context, current.charge))
    const { refusal, hostedBy } = context
    const leadsTo = [...routes.leadsTo(found), ...(hostedBy === null ? [] : yield* originsOf(hostedBy))]
    return refusal === null ? page(status, yield* routes.form(found, state, search), leadsTo) : yield* refusal
  })

  const show = (request: PublicRequest) =>
    Effect.flatMap(find(request), (found) => shown(request, found, {}, 200, request.search))

  /** Answers a returning buyer, or a page that polls. First checks a payment in progress with its rail. */
  const comeBack = Effect.fnUntraced(function* (request: PublicRequest) {
    const before = yield* find(request)
    const charge = routes.underWay(before)
    if (charge !== undefined) yield* checkWithRail(tenantOf(charge), charge, !request.search.has("look"))
    const found = charge === undefined ? before : yield* find(request)
    const goesTo = routes.goesTo(found)
    if (wantsJson(request.headers)) {
      const redirect_url = goesTo === null ? null : new URL(goesTo, (yield* Origin).url).href
      return answer({ status: routes.status(found), redirect_url })
    }
    if (goesTo !== null) return seeOther(goesTo)
    const decline = routes.pageState(found).kind === "form" ? yield* routes.lastDecline(found) : null
    return yield* shown(request, found, decline === null ? {} : { refusal: declineInWords(decline) })
  })

  /** Answers a submission with faults. If the page accepts no submission, answers that instead. */
  const faulty = Effect.fnUntraced(function* (
    request: PublicRequest,
    found: S,
    faults: ReadonlyArray<Fault>,
    fields: Fields,
  ) {
    const current = routes.pageState(found)
    const json = wantsJson(request.headers)
    if (current.kind === "over")
      return json ? yield* yield* routes.refusal(found) : yield* shown(request, found, {}, 422)
    if (current.kind === "under_way")
      return json ? yield* underWay(current.charge.created_at) : seeOther(`${pathOf(request)}/return`)
    if (json) return yield* firstFault(faults, fields)
    const selection =
      fields.otp === undefined ? tickedOf(fields) : { asksOtp: true, chosen: fields.payment_method ?? "" }
    return yield* shown(request, found, { ...faultsShown(faults), ...selection, typed: typedFields(fields) }, 400)
  })

  /** Answers a program's submission. */
  const answerOf = (ended: SubmissionResult): Effect.Effect<PublicResponse, Problem> => {
    switch (ended.kind) {
      case "done":
        return Effect.succeed(answer(ended.answer))
      case "declined":
        return Effect.fail(declined(ended.code, declineInWords(ended)))
      case "too_late":
        return Effect.fail(ended.refusal)
      case "busy":
        return Effect.fail(underWay(ended.since))
    }
  }

  /** Answers a browser's submission. */
  const pageOf = Effect.fnUntraced(function* (
    request: PublicRequest,
    ended: SubmissionResult,
    { methodId }: Submission,
    fields: Fields,
  ) {
    if (ended.kind === "done") return seeOther(ended.goesTo)
    const waiting = seeOther(`${pathOf(request)}/return`)
    if (ended.kind === "busy") return waiting
    if (ended.kind === "too_late") return yield* shown(request, yield* find(request), {}, 422)
    const state = { ...declineShown(ended, methodId), typed: typedFields(fields) }
    const form = Effect.flatMap(find(request), (latest) => shown(request, latest, state, 402))
    // If rendering fails, the return page shows the decline.
    return yield* orMade(form, () => waiting)
  })

  /** Answers with the form again if the buyer can correct the refused submission there. */
  const formAfter = Effect.fnUntraced(function* (
    request: PublicRequest,
    refusal: Problem,
    { methodId }: Submission,
    fields: Fields,
  ) {
    const typed = typedFields(fields)
    const showAgain = (state: FormState) =>
      Effect.flatMap(find(request), (latest) => shown(request, latest, { ...state, typed }, refusal.status))
    if (refusal.code === "card_declined") {
      const nothing = { paidKobo: 0, pendingKobo: 0, failedKobo: 0 }
      return yield* showAgain(declineShown({ code: refusal.failureCode ?? "", ...nothing }, methodId))
    }
    const ticked = tickedOf(fields)
    if (refusal.code === "amount_changed") return yield* showAgain({ ...ticked, refusal: refusal.message })
    if (refusal.param === "payment_method")
      return yield* showAgain({ errors: [{ field: "payment_method", message: CHOOSE }] })
    if (refusal.param === "amount")
      return yield* showAgain({ ...ticked, errors: [{ field: "amount", message: refusal.message }] })
    return yield* refusal
  })

  const complete = Effect.fnUntraced(function* (request: PublicRequest) {
    const fields = yield* readFields(request)
    const found = yield* find(request)
    const { now, simulated, hostedBy, refusal } = routes.context(found)
    const submitted = readSubmission(fields, {
      asksDetails: routes.asksDetails(found),
      asksEmail: routes.asksEmail(found),
      hosted: hostedBy !== null,
      simulated,
      amountsIn,
      inForm: !wantsJson(request.headers),
      now,
    })
    if ("faults" in submitted) return yield* faulty(request, found, submitted.faults, fields)
    if (refusal !== null && routes.pageState(found).kind === "form") return yield* refusal
    const submitting = routes.submit(found, submitted)
    if (wantsJson(request.headers)) return yield* Effect.flatMap(submitting, answerOf)
    return yield* submitting.pipe(
      Effect.flatMap((ended) => pageOf(request, ended, submitted, fields)),
      Effect.catchTag("Problem", (problem) => formAfter(request, problem, submitted, fields)),
    )
  })

  /** Handles a reload of the address that the form posts to. */
  const goBack = (request: PublicRequest) => Effect.succeed(seeOther(pathOf(request)))

  const at = (rest: string) => new RegExp(`^${prefix}/([^/]+)${suffix}${rest}$`)
  const options = { refused: refusedPage }
  return [
    publicRoute(`${prefix}/:token${suffix}`, at(""), { GET: show }, options),
    publicRoute(`${prefix}/:token${suffix}/return`, at("/return"), { GET: comeBack }, options),
    publicRoute(`${prefix}/:token${suffix}/complete`, at("/complete"), { GET: goBack, POST: complete }, options),
    // A mistyped or truncated address also gets a page.
    publicRoute(prefix, new RegExp(`^${prefix}(/.*)?$`), { GET: () => Effect.fail(noSuchPage) }, options),
  ]
}
