/**
 * The routes of a page on which buyers pay, the same for checkout sessions, payment links and instalment plans: the page as it stands, what a
 * submission leads to, and where buyers come back to. One flow for browsers and, in JSON, for programs (decision G8).
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
import { lookInto, openPageOf, originsOf } from "./hosted.ts"
import { type Fault, type Fields, readSubmission, type Submission, typedFields } from "./submission.ts"

/** How things stand with a page. */
export type Standing =
  /** It takes a payment, or a payment method. */
  | { readonly kind: "form" }
  /** A payment is under way: it takes no second one. */
  | { readonly kind: "under_way"; readonly charge: ChargeRow }
  /** It takes nothing any more. `status`: of the response that shows it. */
  | { readonly kind: "over"; readonly status: 200 | 410 }

/** How a submission ended. */
export type Ended =
  /** `goesTo`: where a browser goes on; a program gets the answer. */
  | { readonly kind: "done"; readonly goesTo: string; readonly answer: Json }
  | ({ readonly kind: "declined" } & Declined)
  /** It came too late: the page takes nothing any more, or nothing of the kind. */
  | { readonly kind: "too_late"; readonly refusal: Problem }
  /** Somebody else's payment has been under way for as long as anybody waits. */
  | { readonly kind: "busy"; readonly since: number }

type Work<A, R> = Effect.Effect<A, Problem | SqlError.SqlError, R>

/** A kind of page. `S`: what is known of one of them, as it was found; `R`, `R2`: what reading and submitting take. */
export interface PageRoutes<S, R, R2> {
  /** Such as `/checkout`. */
  readonly prefix: string
  /** What follows the token in the address of the page, such as `/pay`; mostly nothing. */
  readonly suffix?: string
  /** What its amounts are in; kobo where nothing else is said. */
  readonly amountsIn?: "naira"
  /** The page that a token leads to; fails with `resource_missing`. */
  readonly find: (token: string) => Work<S, R>
  readonly context: (found: S) => PaymentContext
  readonly standing: (found: S) => Standing
  /** What a program is told that asks how things stand. */
  readonly status: (found: S) => string
  /** Where a browser that comes back goes on; null: nowhere, the page says it all. */
  readonly goesTo: (found: S) => string | null
  /** Whether the buyer's details are asked for. */
  readonly asksDetails: (found: S) => boolean
  /** Whether the customer is known, but no e-mail address: rails need one. */
  readonly asksEmail: (found: S) => boolean
  /** The payment that is under way, if one is, also where the page is over by now. */
  readonly underWay: (found: S) => ChargeRow | undefined
  /** Where its form may end by a redirect, besides here. */
  readonly leadsTo: (found: S) => ReadonlyArray<string>
  /** The documents: of the form, and of what is over. */
  readonly form: (found: S, state: FormState, search: URLSearchParams) => Work<string, R>
  readonly over: (found: S) => Work<string, R>
  /** Why a page that is over takes nothing. */
  readonly refusal: (found: S) => Work<Problem, R>
  /** What the newest payment that was tried on it was declined for; null: nothing was. */
  readonly lastDecline: (found: S) => Work<Declined | null, R>
  readonly submit: (found: S, submitted: Submission) => Work<Ended, R2>
}

/** What it takes to have a rail asked about a payment on its own page, and to say where the buyer goes on. */
type Looking = Origin | Effect.Services<ReturnType<typeof lookInto>> | Effect.Services<ReturnType<typeof originsOf>>

const underWay = (since: number): Problem =>
  problem("charge_in_progress", `A payment has been under way since ${formatInstant(since)}: wait for its outcome.`)

const receivedOf = ({ attention }: ChargeRow) =>
  attention === null ? null : { amountKobo: attention.received_amount, currency: attention.currency }

const NOTHING = new URLSearchParams()

export const noSuchPage = problem("resource_missing", "There is no such page: check that the link is whole.")

/** A fault of the payment method's ID, which the buyer chose and did not type. */
const CHOOSE = "Choose one of the payment methods."

/** The routes of a site. */
export const payingRoutes = <S, R, R2>(site: PageRoutes<S, R, R2>): ReadonlyArray<PublicRoute<R | R2 | Looking>> => {
  const { prefix, suffix = "", amountsIn = "kobo" } = site
  const pathOf = ({ parts: [token] }: PublicRequest): string => `${prefix}/${encodeURIComponent(token!)}${suffix}`
  const find = ({ parts: [token] }: PublicRequest) => site.find(token!)

  /** The page of a payment whose outcome is not known yet. */
  const waitingPage = (request: PublicRequest, setting: PaymentContext, charge: ChargeRow): string =>
    pendingPage({
      ...setting,
      amountKobo: charge.amount_kobo,
      method: charge.payment_method,
      goOn: openPageOf(charge),
      received: receivedOf(charge),
      since: charge.created_at,
      returnPath: `${pathOf(request)}/return`,
    })

  /** The page as it stands; `state` is of its form, `status` of the response where that is no plain one. */
  const shown = Effect.fnUntraced(function* (
    request: PublicRequest,
    found: S,
    state: FormState = {},
    status = 200,
    search = NOTHING,
  ) {
    const standing = site.standing(found)
    const setting = site.context(found)
    if (standing.kind === "over") return page(status === 200 ? standing.status : status, yield* site.over(found))
    if (standing.kind === "under_way") return page(status, waitingPage(request, setting, standing.charge))
    const { refusal, hostedBy } = setting
    const leadsTo = [...site.leadsTo(found), ...(hostedBy === null ? [] : yield* originsOf(hostedBy))]
    return refusal === null ? page(status, yield* site.form(found, state, search), leadsTo) : yield* refusal
  })

  const show = (request: PublicRequest) =>
    Effect.flatMap(find(request), (found) => shown(request, found, {}, 200, request.search))

  /** The page that a buyer comes back to, or that looks by itself how things stand: a rail that has not said it is asked. */
  const comeBack = Effect.fnUntraced(function* (request: PublicRequest) {
    const before = yield* find(request)
    const charge = site.underWay(before)
    if (charge !== undefined) yield* lookInto(tenantOf(charge), charge, !request.search.has("look"))
    const found = charge === undefined ? before : yield* find(request)
    const goesTo = site.goesTo(found)
    if (wantsJson(request.headers)) {
      const redirect_url = goesTo === null ? null : new URL(goesTo, (yield* Origin).url).href
      return answer({ status: site.status(found), redirect_url })
    }
    if (goesTo !== null) return seeOther(goesTo)
    const last = site.standing(found).kind === "form" ? yield* site.lastDecline(found) : null
    return yield* shown(request, found, last === null ? {} : { refusal: declineInWords(last) })
  })

  /** What is wrong with a submission; where the page takes none, that it does not. */
  const faulty = Effect.fnUntraced(function* (
    request: PublicRequest,
    found: S,
    faults: ReadonlyArray<Fault>,
    fields: Fields,
  ) {
    const standing = site.standing(found)
    const json = wantsJson(request.headers)
    if (standing.kind === "over")
      return json ? yield* yield* site.refusal(found) : yield* shown(request, found, {}, 422)
    if (standing.kind === "under_way")
      return json ? yield* underWay(standing.charge.created_at) : seeOther(`${pathOf(request)}/return`)
    if (json) return yield* firstFault(faults, fields)
    const code = fields.otp === undefined ? tickedOf(fields) : { asksOtp: true, chosen: fields.payment_method ?? "" }
    return yield* shown(request, found, { ...faultsShown(faults), ...code, typed: typedFields(fields) }, 400)
  })

  /** What a program is told of how its submission ended. */
  const answerOf = (ended: Ended): Effect.Effect<PublicResponse, Problem> => {
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

  /** The page on which a browser learns how its submission ended. */
  const pageOf = Effect.fnUntraced(function* (
    request: PublicRequest,
    ended: Ended,
    { methodId }: Submission,
    fields: Fields,
  ) {
    if (ended.kind === "done") return seeOther(ended.goesTo)
    const waiting = seeOther(`${pathOf(request)}/return`)
    if (ended.kind === "busy") return waiting
    if (ended.kind === "too_late") return yield* shown(request, yield* find(request), {}, 422)
    const state = { ...declineShown(ended, methodId), typed: typedFields(fields) }
    const form = Effect.flatMap(find(request), (now) => shown(request, now, state, 402))
    // The payment was declined already: that is said where the buyer comes back to.
    return yield* orMade(form, () => waiting)
  })

  /** The form again, where a refusal is one that the buyer can mend in it. */
  const formAfter = Effect.fnUntraced(function* (
    request: PublicRequest,
    refusal: Problem,
    { methodId }: Submission,
    fields: Fields,
  ) {
    const typed = typedFields(fields)
    const again = (state: FormState) =>
      Effect.flatMap(find(request), (now) => shown(request, now, { ...state, typed }, refusal.status))
    if (refusal.code === "card_declined") {
      const nothing = { paidKobo: 0, pendingKobo: 0, failedKobo: 0 }
      return yield* again(declineShown({ code: refusal.failureCode ?? "", ...nothing }, methodId))
    }
    const ticked = tickedOf(fields)
    if (refusal.code === "amount_changed") return yield* again({ ...ticked, refusal: refusal.message })
    if (refusal.param === "payment_method")
      return yield* again({ errors: [{ field: "payment_method", message: CHOOSE }] })
    if (refusal.param === "amount")
      return yield* again({ ...ticked, errors: [{ field: "amount", message: refusal.message }] })
    return yield* refusal
  })

  const complete = Effect.fnUntraced(function* (request: PublicRequest) {
    const fields = yield* readFields(request)
    const found = yield* find(request)
    const { now, simulated, hostedBy, refusal } = site.context(found)
    const submitted = readSubmission(fields, {
      asksDetails: site.asksDetails(found),
      asksEmail: site.asksEmail(found),
      hosted: hostedBy !== null,
      simulated,
      amountsIn,
      inForm: !wantsJson(request.headers),
      now,
    })
    if ("faults" in submitted) return yield* faulty(request, found, submitted.faults, fields)
    if (refusal !== null && site.standing(found).kind === "form") return yield* refusal
    const submitting = site.submit(found, submitted)
    if (wantsJson(request.headers)) return yield* Effect.flatMap(submitting, answerOf)
    return yield* submitting.pipe(
      Effect.flatMap((ended) => pageOf(request, ended, submitted, fields)),
      Effect.catchTag("Problem", (problem) => formAfter(request, problem, submitted, fields)),
    )
  })

  /** Who reloads the address that the form was sent to. */
  const goBack = (request: PublicRequest) => Effect.succeed(seeOther(pathOf(request)))

  const at = (rest: string) => new RegExp(`^${prefix}/([^/]+)${suffix}${rest}$`)
  const options = { refused: refusedPage }
  return [
    publicRoute(`${prefix}/:token${suffix}`, at(""), { GET: show }, options),
    publicRoute(`${prefix}/:token${suffix}/return`, at("/return"), { GET: comeBack }, options),
    publicRoute(`${prefix}/:token${suffix}/complete`, at("/complete"), { GET: goBack, POST: complete }, options),
    // What was mistyped or cut off gets a page all the same.
    publicRoute(prefix, new RegExp(`^${prefix}(/.*)?$`), { GET: () => Effect.fail(noSuchPage) }, options),
  ]
}
