/**
 * Handles charges at outside rails (decisions F1, P4 to P10): prepares each queued call and applies its result. src/rails/rail_call makes
 * the calls.
 */
import { Effect, Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { Bill } from "../../../machines/periods.ts"
import { sameForAll } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { refOf } from "../../db/tenant.ts"
import { PageUrls } from "../../http/PageUrls.ts"
import type { ProcessLease } from "../../process/ProcessLease.ts"
import { type FoundCredentials, RailCredentials, railAccountKey } from "../../rails/credential/RailCredentials.ts"
import type { PaymentRail } from "../../rails/rail/PaymentRail.ts"
import type { Credentials, Rail, RailResult } from "../../rails/rail/Rail.ts"
import { Rails } from "../../rails/rail/Rails.ts"
import type { TakenCall } from "../../rails/rail_call/queue.ts"
import type { AnsweredCall, Prepared } from "../../rails/rail_call/worker.ts"
import { Vault } from "../../security/secret/Vault.ts"
import type { ChargeRow } from "../charge/charge.ts"
import { methodPlace } from "../payment_method/paymentMethods.ts"
import { callOf } from "./commitAttempts.ts"
import type { ChargeResult } from "./decide.ts"
import type { PaymentSubjects } from "./PaymentSubjects.ts"
import { railMetadataOf } from "./railMetadata.ts"
import { type AnswerWithoutTime, interpret, isAnswered } from "./railResult.ts"
import { applyAnswers } from "./settle.ts"
import { collect } from "./simulatorCharges.ts"
import { queueStatusChecks } from "./statusChecks.ts"

/** The services for rail calls about charges and their refunds. */
export type RailServices =
  | PaymentSubjects
  | PageUrls
  | PaymentRail
  | RailCredentials
  | Rails
  | ProcessLease
  | SqlClient.SqlClient
  | Vault

/** The services for status checks of charges, which open no page. */
export type QuestionServices = Exclude<RailServices, PageUrls>

/** A charge with the facts that are sent to its rail. */
interface Subject extends ChargeRow {
  readonly business_name: string
  readonly customer_name: string
  readonly customer_email: string | null
  readonly customer_phone: string | null
  /** The bill that its subscription is collecting. */
  readonly bill: Bill | null
  /** The subscription is cancelled: the charge is not sent again. */
  readonly is_over: boolean
  /** The sealed token of its payment method; null if the customer no longer has the method. */
  readonly sealed: Uint8Array | null
  readonly method_email: string | null
}

/** Reads the subjects of calls, by charge ID. OFFSET 0 forces a lookup by key, even in a plan made while the tables were small. */
const readSubjects = Effect.fnUntraced(function* (calls: ReadonlyArray<TakenCall>) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Subject>`
    SELECT c.*, a.business_name, p.name AS customer_name, p.email AS customer_email, p.phone AS customer_phone,
      m.sealed, m.email AS method_email, s.bill, coalesce(s.cancelled_at IS NOT NULL, false) AS is_over
    FROM ${rowsAsTable(calls.map(refOf), REF_COLUMNS)} r
    CROSS JOIN LATERAL (SELECT * FROM charge WHERE (account_id, livemode, id) = (r.account_id, r.livemode, r.id) OFFSET 0) c
    CROSS JOIN LATERAL (SELECT business_name FROM account WHERE id = c.account_id OFFSET 0) a
    CROSS JOIN LATERAL (
      SELECT * FROM customer WHERE (account_id, livemode, id) = (c.account_id, c.livemode, c.customer_id) OFFSET 0
    ) p
    LEFT JOIN LATERAL (
      SELECT * FROM payment_method
      WHERE (account_id, livemode, customer_id, id) = (c.account_id, c.livemode, c.customer_id, c.payment_method->>'id') OFFSET 0
    ) m ON true
    LEFT JOIN LATERAL (
      SELECT bill, cancelled_at FROM subscription WHERE (account_id, livemode, id) = (c.account_id, c.livemode, c.subscription_id) OFFSET 0
    ) s ON true`
  return new Map(rows.map((row) => [row.id, row]))
})

const refused = (code: "payment_method_inactive" | "rail_misconfigured", message: string): RailResult => ({
  kind: "refused",
  code,
  message,
})

const NO_CREDENTIALS = refused(
  "payment_method_inactive",
  "The merchant is not connected to the rail of this payment method.",
)
const NO_METHOD = refused("payment_method_inactive", "The customer does not have this payment method any more.")
const NO_EMAIL = refused("rail_misconfigured", "The rail needs the customer's e-mail address.")
/** The process died during the call: the rail's answer is unknown. */
const LOST: RailResult = { kind: "lost" }
/** A status check that this process has no credentials for. */
const NOT_ASKED: RailResult = {
  kind: "unclear",
  message: "There are no credentials for the status check.",
  reached: true,
}
/** A call that cannot be made now: it stays in the queue. */
const notNow = (message: string): RailResult => ({ kind: "not_sent", message })

const chargeToken = Effect.fnUntraced(function* (rail: Rail, subject: Subject, credentials: Credentials) {
  const { account_id, livemode, customer_id, id: reference, amount_kobo: amountKobo, sealed, method_email } = subject
  if (sealed === null || method_email === null) return Effect.succeed(NO_METHOD)
  const place = methodPlace({ account_id, livemode, customer_id, id: subject.payment_method!.id })
  const token = yield* Effect.result((yield* Vault).open(place, sealed))
  if (Result.isFailure(token)) {
    yield* Effect.logError(token.failure.message)
    return Effect.succeed(notNow("The token cannot be opened."))
  }
  const opened = Redacted.make(Redacted.value(token.success).toString())
  const metadata = railMetadataOf(subject, subject.bill)
  return rail.charge({ reference, amountKobo, token: opened, email: method_email, metadata }, credentials)
})

const openPage = Effect.fnUntraced(function* (rail: Rail, subject: Subject, credentials: Credentials) {
  const { customer_email: email, customer_name: name, customer_phone: phone, business_name: business } = subject
  if (email === null) return Effect.succeed(NO_EMAIL)
  const returnUrl = `${(yield* PageUrls).url({ ...refOf(subject), id: subject.page_id! })}/return`
  const { id: reference, amount_kobo: amountKobo, purpose } = subject
  const description =
    purpose === "verification" ? `${business}: to save your card; sent back at once` : `Payment to ${business}`
  const metadata = railMetadataOf(subject, subject.bill)
  return rail.openPage({ reference, amountKobo, email, name, phone, returnUrl, description, metadata }, credentials)
})

interface CallFacts {
  readonly call: TakenCall
  readonly subject: Subject
  /** undefined: the account has none; failure: this process cannot open them. */
  readonly found: FoundCredentials | undefined
}

const readCallFacts = Effect.fnUntraced(function* (calls: ReadonlyArray<TakenCall>) {
  const subjects = yield* readSubjects(calls)
  const credentials = yield* (yield* RailCredentials).find(calls)
  return calls.map(
    (call): CallFacts => ({
      call,
      subject: subjects.get(call.id)!,
      found: credentials.get(railAccountKey(call)),
    }),
  )
})

const attemptOf = Effect.fnUntraced(function* ({ call, subject, found }: CallFacts) {
  if (call.was_sent_at !== null) return Effect.succeed(LOST)
  if (found === undefined) return Effect.succeed(NO_CREDENTIALS)
  if (Result.isFailure(found)) return Effect.succeed(notNow("The credentials cannot be opened."))
  const rail = (yield* Rails).of(call.rail)
  return yield* call.kind === "open_page"
    ? openPage(rail, subject, found.success)
    : chargeToken(rail, subject, found.success)
})

const prepareAttempts = Effect.fnUntraced(function* (calls: ReadonlyArray<TakenCall>) {
  return yield* Effect.forEach(yield* readCallFacts(calls), (one) =>
    Effect.map(attemptOf(one), (talk): Prepared => ({ call: one.call, talk })),
  )
})

const prepareQuestions = Effect.fnUntraced(function* (calls: ReadonlyArray<TakenCall>) {
  const rails = yield* Rails
  return (yield* readCallFacts(calls)).map(({ call, subject, found }): Prepared => {
    const open = found !== undefined && Result.isSuccess(found)
    return { call, talk: open ? rails.of(call.rail).ask(subject.id, found.success) : Effect.succeed(NOT_ASKED) }
  })
})

/** Logs an error for an operator: a rail refuses an account's calls. */
const alertMisconfigured = (answered: ReadonlyArray<AnsweredCall>) =>
  Effect.forEach(
    answered,
    ({ call: { account_id: account, rail }, result }) =>
      "code" in result && result.code === "rail_misconfigured" && result !== NO_EMAIL
        ? Effect.annotateLogs(Effect.logError("a rail refuses an account's calls"), { account, rail })
        : Effect.void,
    { discard: true },
  )

/** Whether a charge is settled and its rail may report the opposite. A paid verification is refunded anyway. */
const mayBeContradicted = ({ status, purpose }: ChargeRow): boolean =>
  status === "failed" || (status === "succeeded" && purpose !== "verification")

/** Gives up an attempt that the rail does not have if its subscription is cancelled. */
const unlessOver = (answer: AnswerWithoutTime, { is_over }: Subject): AnswerWithoutTime =>
  answer.type === "rail.not_found" && is_over ? { ...answer, unwanted: true } : answer

const write = Effect.fnUntraced(function* (all: ReadonlyArray<AnsweredCall>) {
  const subjects = yield* readSubjects(all.map(({ call }) => call))
  const again: Array<TakenCall> = []
  const later: Array<TakenCall> = []
  const answers = all.flatMap(({ call, result, endedAt }): ReadonlyArray<ChargeResult> => {
    const charge = subjects.get(call.id)
    if (charge === undefined) return []
    // An answer is never older than its question, even if the wall clock is set back.
    const at = Math.max(charge.sent_at, endedAt)
    const interpretation = interpret(charge, call.kind, result, at)
    // No timer checks a settled charge again. A callback of its rail may announce that the rail contradicts its answer.
    if (call.kind === "ask" && mayBeContradicted(charge) && !isAnswered(charge, result)) later.push(call)
    if (interpretation !== undefined)
      return [{ ...interpretation, answer: unlessOver(interpretation.answer, charge), charge, at }]
    again.push(call)
    return []
  })
  const now = sameForAll(currentTime())
  const { attempts, following, sentAgain } = yield* applyAnswers(answers, now)
  // After the write, so that a retry of the write does not log it twice.
  yield* alertMisconfigured(all)
  return { again, later, next: sentAgain.flatMap(callOf), after: collect([...attempts, ...following], now) }
})

/** Sends charges to their rails, and opens rails' pages. */
export const railAttempts = {
  kinds: ["charge", "open_page"] as const,
  prepare: prepareAttempts,
  write,
  askAgain: queueStatusChecks,
}

/** Makes the status checks of charges. */
export const railQuestions = { kinds: ["ask"] as const, prepare: prepareQuestions, write, askAgain: queueStatusChecks }
