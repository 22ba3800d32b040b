/** The pages behind payment links. */
import { Effect } from "effect"
import { problem } from "../../base/problem.ts"
import type { ChargeRow } from "../../billing/charge/charge.ts"
import { TenantDatabase } from "../../db/TenantDatabase.ts"
import { tenantOf } from "../../db/tenant.ts"
import { type Declined, lateOf } from "../payment_page/declines.ts"
import { openPageOf } from "../payment_page/hosted.ts"
import { payingRoutes, type SubmissionResult } from "../payment_page/routes.ts"
import { findLink, type ReadLink, readLink } from "./read.ts"
import type { LinkState } from "./status.ts"
import { cameTooLate, closedBecause, type Intent, type Paid, submitPayment, sumOf } from "./submit.ts"
import { closedPage, formPage } from "./view.ts"

/** Reads what the pages of a link show, as its tenant. */
const find = Effect.fnUntraced(function* (token: string) {
  const nudge = yield* findLink(token)
  const { reading } = yield* TenantDatabase
  const read = yield* reading(tenantOf(nudge), readLink(nudge))
  return { ...read, path: `/pay/${encodeURIComponent(token)}` }
})

type Found = Effect.Success<ReturnType<typeof find>>

/** Whether a verification charge succeeded. */
const isVerified = ({ purpose, status }: ChargeRow): boolean => purpose === "verification" && status === "succeeded"

const STATUSES: Readonly<Record<LinkState["kind"], string>> = {
  used: "paid",
  cancelled: "closed",
  expired: "closed",
  under_way: "pending",
  due: "open",
  settled: "open",
}

/** Describes the result of charges of which one was declined, or saved no reusable method; null: none. */
const declineOf = (charges: ReadonlyArray<ChargeRow>): Declined | null => {
  const failed = charges.find(({ status }) => status === "failed")
  const unsaved = charges.filter((charge) => isVerified(charge) && charge.payment_method === null)
  if (failed === undefined && unsaved.length === 0) return null
  const bills = charges.filter(({ purpose }) => purpose === "sale")
  const late = lateOf(charges)
  return {
    code: failed?.failure_code ?? "payment_method_inactive",
    paidKobo: sumOf(bills, "succeeded"),
    pendingKobo: sumOf(bills, "pending"),
    failedKobo: sumOf(bills, "failed"),
    returnedKobo: sumOf(unsaved, "succeeded") + late.returnedKobo,
    lateKobo: late.lateKobo,
  }
}

/** Returns the payments of the newest submission: same form, same instant. A test clock may not move between two forms. */
const newest = (tries: ReadonlyArray<ChargeRow>): ReadonlyArray<ChargeRow> => {
  const last = tries.at(-1)
  return tries.filter(({ created_at, submission }) => created_at === last?.created_at && submission === last.submission)
}

/** Whether the newest payment with the link saved a method. */
const isSaved = ({ linkState, tries }: Found): boolean => {
  const last = tries.at(-1)
  return linkState.kind === "settled" && last !== undefined && isVerified(last) && last.payment_method !== null
}

/** Returns what the buyer was offered: from the amount that the form was sent with, else from the state of the link. */
const intentOf = ({ linkState }: ReadLink, amountKobo: number | null): Intent => {
  if (amountKobo !== null) return amountKobo > 0 ? "pay" : "save"
  return linkState.kind === "settled" ? "save" : "pay"
}

const SAVED = "saved"

/** Returns the result of a submission. The amount includes other overdue bills that were charged to a saved method. */
const endOf = ({ path }: Found, paid: Paid): SubmissionResult => {
  switch (paid.kind) {
    case "too_late":
      return paid
    case "busy": {
      const page = openPageOf(paid.charge)
      return page === null
        ? { kind: "busy", since: paid.charge.created_at }
        : { kind: "done", goesTo: page, answer: { status: "pending", redirect_url: page } }
    }
    case "saved":
      return {
        kind: "done",
        goesTo: `${path}?${SAVED}`,
        answer: { status: "saved", amount: sumOf(paid.others, "succeeded") },
      }
    case "tried": {
      const declined = declineOf(paid.charges)
      if (declined !== null) return { kind: "declined", ...declined }
      const page = paid.charges.map(openPageOf).find((url) => url !== null)
      if (page !== undefined) return { kind: "done", goesTo: page, answer: { status: "pending", redirect_url: page } }
      const pending = sumOf(paid.charges, "pending")
      const owedBack = paid.charges.filter(({ refund_due }) => refund_due)
      if (owedBack.length > 0 && owedBack.length === paid.charges.length)
        return { kind: "too_late", refusal: cameTooLate(owedBack) }
      return {
        kind: "done",
        // The rail's page is not open yet, so the buyer is not returning from it.
        goesTo: `${path}/return${paid.charges.some(({ hosted }) => hosted) ? "?look" : ""}`,
        answer:
          pending > 0
            ? { status: "pending", amount: pending }
            : { status: "paid", amount: sumOf(paid.charges, "succeeded") - sumOf(owedBack, "succeeded") },
      }
    }
  }
}

export const paymentLinkRoutes = payingRoutes({
  prefix: "/pay",
  find,
  context: ({ context }) => context,
  pageState: ({ linkState, latest }) => {
    if (linkState.kind === "under_way") return { kind: "under_way", charge: latest! }
    if (linkState.kind === "used") return { kind: "over", status: 200 }
    return linkState.kind === "cancelled" || linkState.kind === "expired"
      ? { kind: "over", status: 410 }
      : { kind: "form" }
  },
  status: (found) => (isSaved(found) ? "saved" : STATUSES[found.linkState.kind]),
  goesTo: (found) => (isSaved(found) ? `${found.path}?${SAVED}` : null),
  asksDetails: () => false,
  asksEmail: ({ customer }) => customer.email === null,
  underWay: ({ linkState, latest }) => (linkState.kind === "under_way" ? latest : undefined),
  leadsTo: () => [],
  form: (found, state, search) => Effect.succeed(formPage(found, found.path, state, search.has(SAVED))),
  over: (found) => Effect.succeed(closedPage(found)),
  refusal: ({ linkState }) => Effect.succeed(problem("payment_link_closed", closedBecause(linkState)!)),
  // A decline is no longer shown if the bills were paid in another way since.
  lastDecline: ({ linkState, tries }) => {
    const last = newest(tries)
    const counts = linkState.kind === "due" || last.some(({ purpose }) => purpose === "verification")
    return Effect.succeed(counts ? declineOf(last) : null)
  },
  submit: (found, submitted) =>
    Effect.map(
      submitPayment(found.nudge, submitted, intentOf(found, submitted.amountKobo), found.context.hostedBy),
      (paid) => endOf(found, paid),
    ),
})
