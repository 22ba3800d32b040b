import { Effect } from "effect"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { tenantOf } from "../db/tenant.ts"
import { type PublicRequest, publicRoute } from "../http/publicRoutes.ts"
import { declineInWords } from "../paying/declines.ts"
import { declineShown, type FormState, faultsShown } from "../paying/form.ts"
import { answer, firstFault, page, pageOptions, readFields, seeOther, wantsJson } from "../paying/page.ts"
import { type Fields, readSubmission } from "../paying/submission.ts"
import { declined, type Problem, problem } from "../problem.ts"
import { closedBecause, type Intent, type Paid, partPaid, submitPayment, sumOf } from "./paying.ts"
import { findLink, type ReadLink, readLink } from "./read.ts"
import { closedPage, formPage, waitingPage } from "./view.ts"

const pathOf = (token: string): string => `/pay/${encodeURIComponent(token)}`

/** Reads what the pages of a link show, as its tenant. */
const read = Effect.fnUntraced(function* (token: string) {
  const nudge = yield* findLink(token)
  const { reading } = yield* TenantDatabase
  return yield* reading(tenantOf(nudge), readLink(nudge))
})

/** The page as things stand. `state`: of its form. */
const standingPage = (shown: ReadLink, path: string, state?: FormState, remark?: string) => {
  const over = closedPage(shown)
  if (over !== undefined) return page(shown.standing.kind === "used" ? 200 : 410, over)
  return page(
    200,
    shown.standing.kind === "under_way"
      ? waitingPage(shown, path, shown.latest!)
      : formPage(shown, path, state, remark),
  )
}

const SAVED = "Your payment method is saved. It is used from now on."

const show = ({ parts: [token], search }: PublicRequest) =>
  Effect.map(read(token!), (shown) =>
    standingPage(shown, pathOf(token!), undefined, search.has("saved") ? SAVED : undefined),
  )

const STATUSES = {
  used: "paid",
  cancelled: "closed",
  expired: "closed",
  under_way: "pending",
  owing: "open",
  settled: "open",
} as const

/** Where buyers come back to from a rail's page, and where a payment under way is looked at again. */
const comeBack = ({ parts: [token], headers }: PublicRequest) =>
  Effect.map(read(token!), (shown) => {
    const { standing, latest } = shown
    if (wantsJson(headers)) return answer({ status: STATUSES[standing.kind], redirect_url: null })
    const refusal =
      standing.kind === "owing" && latest?.status === "failed" ? declineInWords(latest.failure_code) : null
    return standingPage(shown, pathOf(token!), { refusal })
  })

/** The envelope in which a program is told how its submission ended. */
const answerOf = (paid: Paid) => {
  if (paid.kind === "saved") return Effect.succeed(answer({ status: "saved", amount: 0 }))
  if (paid.kind === "busy")
    return Effect.fail(
      problem(
        "charge_in_progress",
        `The payment ${paid.charge.id} has been under way for a while: wait for its outcome.`,
      ),
    )
  const failed = paid.charges.find(({ status }) => status === "failed")
  if (failed !== undefined) {
    const message = [declineInWords(failed.failure_code), partPaid(paid.charges)].filter(Boolean).join(" ")
    return Effect.fail(declined(failed.failure_code!, message))
  }
  const pending = sumOf(paid.charges, "pending")
  return Effect.succeed(
    answer(
      pending > 0
        ? { status: "pending", amount: pending }
        : { status: "paid", amount: sumOf(paid.charges, "succeeded") },
    ),
  )
}

/** The page on which a browser learns how its submission ended. */
const pageOf = (shown: ReadLink, path: string, paid: Paid, methodId: string) => {
  if (paid.kind === "saved") return seeOther(`${path}?saved`)
  const failed = paid.kind === "tried" ? paid.charges.find(({ status }) => status === "failed") : undefined
  if (paid.kind === "busy" || failed === undefined) return seeOther(`${path}/return`)
  return page(402, formPage(shown, path, declineShown(failed.failure_code, methodId, partPaid(paid.charges))))
}

/** The form again, where a refusal is one that the buyer can mend in it; the page as it stands where it is closed. */
const pageAfter = (shown: ReadLink, path: string, refusal: Problem, methodId: string) => {
  switch (refusal.code) {
    case "card_declined":
      return page(402, formPage(shown, path, declineShown(refusal.failureCode, methodId)))
    case "amount_changed":
      return page(422, formPage(shown, path, { refusal: refusal.message }))
    case "payment_link_closed": {
      const over = closedPage(shown)
      return page(422, over ?? formPage(shown, path, {}, refusal.message))
    }
    default:
      return refusal.param === "payment_method"
        ? page(400, formPage(shown, path, { errors: [{ field: "payment_method", message: refusal.message }] }))
        : undefined
  }
}

/** What the buyer was offered: by the amount that the form was sent with, else as things stand. */
const intentOf = ({ standing }: ReadLink, amountKobo: number | null): Intent => {
  if (amountKobo !== null) return amountKobo > 0 ? "pay" : "save"
  return standing.kind === "settled" ? "save" : "pay"
}

const faulty = (
  shown: ReadLink,
  path: string,
  json: boolean,
  faults: Parameters<typeof firstFault>[0],
  fields: Fields,
) => {
  const reason = closedBecause(shown.standing)
  if (json)
    return Effect.fail(reason === undefined ? firstFault(faults, fields) : problem("payment_link_closed", reason))
  if (reason !== undefined) return Effect.succeed(page(422, closedPage(shown)!))
  return Effect.succeed(page(400, formPage(shown, path, faultsShown(faults))))
}

const complete = Effect.fnUntraced(function* (request: PublicRequest) {
  const [token] = request.parts
  const path = pathOf(token!)
  const json = wantsJson(request.headers)
  const fields = yield* readFields(request)
  const before = yield* read(token!)
  const submitted = readSubmission(fields, { asksDetails: false, now: before.setting.now })
  if ("faults" in submitted) return yield* faulty(before, path, json, submitted.faults, fields)
  const intent = intentOf(before, submitted.amountKobo)
  const submitting = submitPayment(tenantOf(before.nudge), before.nudge, submitted, intent)
  if (json) return yield* Effect.flatMap(submitting, answerOf)
  const ended = yield* Effect.result(submitting)
  const after = yield* read(token!)
  if (ended._tag === "Success") return pageOf(after, path, ended.success, submitted.methodId)
  const refusal = ended.failure
  const shown = refusal._tag === "Problem" ? pageAfter(after, path, refusal, submitted.methodId) : undefined
  return shown ?? (yield* refusal)
})

/** Who reloads the address that the form was sent to. */
const goBack = ({ parts: [token] }: PublicRequest) => Effect.succeed(seeOther(pathOf(token!)))

export const paymentLinkRoutes = [
  publicRoute("/pay/:token", /^\/pay\/([^/]+)$/, { GET: show }, pageOptions),
  publicRoute("/pay/:token/return", /^\/pay\/([^/]+)\/return$/, { GET: comeBack }, pageOptions),
  publicRoute("/pay/:token/complete", /^\/pay\/([^/]+)\/complete$/, { GET: goBack, POST: complete }, pageOptions),
]
