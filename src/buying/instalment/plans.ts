/** Instalment plans: creating one, and the actions of merchant and buyer (decisions L3 to L7). */
import { Effect } from "effect"
import { instalmentMachine, isSaving } from "../../../machines/instalment.ts"
import { dueKobo, MIN_PAYMENT_KOBO } from "../../../machines/instalment_schedule.ts"
import { newId, newPlanCode } from "../../base/ids.ts"
import { formatKobo } from "../../base/money.ts"
import { parsePhone } from "../../base/phone.ts"
import { invalid, problem } from "../../base/problem.ts"
import { DAY_MS, formatInstant, parseInstant, sameForAll } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { clockTime, joinClocks } from "../../billing/clock/clocks.ts"
import { type CustomerRow, customers } from "../../billing/customer/customer.ts"
import { type Tenant, tenantOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { commit } from "../../runtime/commit.ts"
import { start } from "../../runtime/lifecycle.ts"
import { created } from "../../runtime/outcome.ts"
import { hashToken } from "../../security/secret/linkTokens.ts"
import { contextOf } from "../payment_page/context.ts"
import type { Extend, PlanCreate } from "./api.ts"
import { findPlan } from "./find.ts"
import { InstalmentLinks } from "./InstalmentLinks.ts"
import { eventsOf } from "./outcome.ts"
import { type InstalmentPlanRow, instalmentLifecycle, instalmentPlans, naira, refundKobo } from "./plan.ts"
import { type ProductRow, products, slotsOf } from "./product.ts"
import { type InstalmentCommand, transitionAll } from "./transition.ts"

const phoneOf = ({ phone: typed }: PlanCreate["buyer"]) => {
  const phone = typed == null ? null : parsePhone(typed)
  return phone === undefined
    ? Effect.fail(invalid("buyer.phone", "buyer.phone must be a phone number such as 0803 123 4567 or +2348031234567."))
    : Effect.succeed(phone)
}

/** Refuses an invalid phone number. Accepts all the ways in which buyers write one. */
export const checkBuyer = (name: string, { buyer }: PlanCreate) =>
  name === "buyer" ? Effect.asVoid(phoneOf(buyer)) : undefined

/** Returns the buyer's details, with an e-mail address or a phone number at least. */
const buyerOf = Effect.fnUntraced(function* ({ buyer }: PlanCreate) {
  const phone = yield* phoneOf(buyer)
  const email = buyer.email ?? null
  return phone === null && email === null
    ? yield* problem("parameter_missing", "buyer.email or buyer.phone is needed.", "buyer.email")
    : { name: buyer.name, email, phone }
})

const frequencyOf = ({ mode, allowed_frequencies: allowed }: ProductRow, { frequency }: PlanCreate) => {
  if (mode === "flexible")
    return frequency === undefined
      ? Effect.succeed(null)
      : Effect.fail(invalid("frequency", "frequency goes with products of mode fixed: this one is flexible."))
  const chosen = frequency ?? (allowed.length === 1 ? allowed[0] : undefined)
  if (chosen === undefined)
    return Effect.fail(problem("parameter_missing", `frequency is needed: one of ${allowed.join(", ")}.`, "frequency"))
  return allowed.includes(chosen)
    ? Effect.succeed(chosen)
    : Effect.fail(invalid("frequency", `frequency must be one of ${allowed.join(", ")}, as the product allows.`))
}

/** Locks the product until the plan has its slot. A database constraint also guards the number of slots. */
const lockOffered = Effect.fnUntraced(function* (tenant: Tenant, id: string) {
  const product = yield* products.lockOne(tenant, id, "NO KEY UPDATE")
  if (!product.is_active) return yield* problem("product_inactive", `${product.name} is not offered now.`)
  if (slotsOf(product).remaining === 0)
    return yield* problem("slots_exhausted", `All ${product.slots_total} slots of ${product.name} are taken.`)
  return product
})

/** Returns a code that no plan of the tenant has. A collision is rare, and draws again. */
const freshCode = Effect.fnUntraced(function* (tenant: Tenant) {
  for (;;) {
    const code = newPlanCode()
    if ((yield* instalmentPlans.find(tenant, [code])).size === 0) return code
  }
})

/** Creates a plan, with its buyer as a customer. Returns what the buyer needs to continue. */
export const createPlan = Effect.fn("instalment.create")(function* (
  tenant: Tenant,
  productId: string,
  input: PlanCreate,
) {
  const buyer = yield* buyerOf(input)
  yield* frequencyOf(yield* products.get(tenant, productId), input)
  const { refusal } = yield* contextOf(tenant, null)
  if (refusal !== null) return yield* refusal
  const clockId = input.testClock ?? null
  const now = clockId === null ? currentTime() : yield* (yield* joinClocks(tenant, [clockId], "testClock"))[0]!
  const product = yield* lockOffered(tenant, productId)
  const terms = {
    mode: product.mode,
    frequency: yield* frequencyOf(product, input),
    targetKobo: product.price_kobo,
    cycleMonths: product.cycle_months,
    lateFeeKobo: product.late_fee_kobo,
    refundWindowDays: product.refund_window_days,
  }
  const first = start(instalmentMachine, { type: "create", at: now, ...terms })
  const { context } = first.decision.snapshot
  const [{ amountKobo: firstKobo } = { amountKobo: 0 }] = context.instalments
  if (firstKobo < MIN_PAYMENT_KOBO)
    return yield* problem(
      "instalment_too_small",
      `${context.instalments.length} instalments of ${naira(firstKobo)} naira each: one must be at least ${naira(MIN_PAYMENT_KOBO)}. Choose a frequency with fewer.`,
      "frequency",
    )
  const customer: CustomerRow = {
    ...tenantOf(tenant),
    id: newId("customer"),
    ...buyer,
    default_payment_method_id: null,
    test_clock_id: clockId,
    metadata: {},
    created_at: now,
  }
  ;(yield* unitOfWork).insert(customers, [customer])
  const id = yield* freshCode(tenant)
  const ref = { ...tenantOf(tenant), id }
  const links = yield* InstalmentLinks
  const row: InstalmentPlanRow = {
    ...tenantOf(tenant),
    id,
    product_id: product.id,
    product_name: product.name,
    product_image: product.image,
    customer_id: customer.id,
    test_clock_id: clockId,
    token_hash: hashToken(links.token(ref)),
    charge_id: null,
    charge_settled_at: null,
    created_at: now,
    version: first.version,
    ...instalmentPlans.snapshotColumns(first.to, context),
  }
  yield* commit([created(instalmentLifecycle, first, row, { events: eventsOf({ ...first, row }, row, now) })])
  return {
    publicId: id,
    accessToken: links.token(ref),
    pageUrl: links.pageUrl(ref),
    paymentUrl: links.paymentUrl(ref),
    amountDue: naira(dueKobo(context.mode, context)),
  }
})

const invalidState = (message: string) => problem("savings_plan_state_invalid", message)

/** Moves one locked plan by an event; returns it afterwards. */
const transitionOne = Effect.fnUntraced(function* (row: InstalmentPlanRow, event: InstalmentCommand["event"]) {
  const [result] = yield* transitionAll([{ row, event }], { nowOf: sameForAll(event.at) })
  yield* commit(result === undefined ? [] : [result.outcome])
  return result?.row ?? row
})

/** Locks the plan, and returns it with the time of its clock. */
const lockPlan = Effect.fnUntraced(function* (tenant: Tenant, id: string) {
  const found = yield* instalmentPlans.get(tenant, id)
  const now = yield* clockTime(tenant, found.test_clock_id)
  return { row: yield* instalmentPlans.lockOne(tenant, id), now }
})

/** Refuses both ways to extend a plan in one request. */
export const checkExtension = (name: string, { days }: Extend) =>
  name === "deadline" && days !== undefined
    ? Effect.fail(invalid("deadline", "days and deadline exclude each other: send one of them."))
    : undefined

/** One of the two ways is required. */
export const missingOfExtension = ({ days, deadline }: Extend) =>
  days === undefined && deadline === undefined
    ? problem("parameter_missing", "days or deadline is needed.", "days")
    : undefined

export const extendPlan = Effect.fn("instalment.extend")(function* (tenant: Tenant, id: string, input: Extend) {
  const { row, now } = yield* lockPlan(tenant, id)
  const { days, deadline } = input
  const byMs = days === undefined ? parseInstant(deadline!)! - row.deadline_at : days * DAY_MS
  if (byMs <= 0)
    return yield* invalid("deadline", `deadline must be later than it is now: ${formatInstant(row.deadline_at)}.`)
  if (row.status !== "active" && row.status !== "overdue")
    return yield* invalidState(`The plan is ${row.status}: only active and overdue plans can be extended.`)
  return yield* transitionOne(row, { type: "extend", at: now, byMs })
})

export const shipPlan = Effect.fn("instalment.ship")(function* (tenant: Tenant, id: string) {
  const { row, now } = yield* lockPlan(tenant, id)
  if (row.status !== "completed")
    return yield* invalidState(`The plan is ${row.status}: only completed plans can be shipped.`)
  return yield* transitionOne(row, { type: "ship", at: now })
})

export const deliverPlan = Effect.fn("instalment.deliver")(function* (tenant: Tenant, id: string) {
  const { row, now } = yield* lockPlan(tenant, id)
  if (row.status !== "shipped")
    return yield* invalidState(`The plan is ${row.status}: only shipped plans can be delivered.`)
  return yield* transitionOne(row, { type: "deliver", at: now })
})

/**
 * Cancels a plan for its buyer. `seen`: the refund (kobo) that the buyer saw; fails if it is another by now. A payment in progress that
 * arrives later is owed back (decision E15).
 */
export const cancelPlan = Effect.fn("instalment.cancel")(function* (token: string, seen: string | null = null) {
  const found = yield* findPlan(token)
  const { row, now } = yield* lockPlan(found, found.id)
  if (!isSaving(row.state))
    return yield* invalidState(
      row.status === "cancelled"
        ? "The plan is cancelled already."
        : `The plan is ${row.status}: everything is paid, and it cannot be cancelled any more.`,
    )
  if (seen !== null && seen !== String(refundKobo(row)))
    return yield* problem("amount_changed", `The refund has changed: it is ${formatKobo(refundKobo(row))} now.`)
  const plan = yield* transitionOne(row, { type: "cancel", at: now })
  return { plan, product: yield* products.get(found, row.product_id) }
})
