/**
 * Customers that requests are about to charge, and what by: of several requests of one tenant at once, in the running
 * transaction. A customer is locked, so that none of its payment methods is removed while it is being used; one on a test clock
 * after that clock is.
 */
import { Effect, type Exit } from "effect"
import { asReference, noSuchReference, type Problem } from "../../base/problem.ts"
import { currentTime } from "../../base/wallClock.ts"
import { type Ref, refOf, type Tenant, tenantOf } from "../../db/tenant.ts"
import type { UnitOfWork } from "../../db/UnitOfWork.ts"
import { LOCKED, WaitForLocks } from "../../postgres/lockWait.ts"
import { PIPELINED } from "../../postgres/pipelining.ts"
import { standingTimes } from "../clock/clocks.ts"
import { type CustomerRow, customers } from "../customer/customer.ts"
import {
  type AttachedMethod,
  attachMethods,
  findPaymentMethods,
  methodKey,
  newTestMethod,
} from "../payment_method/paymentMethods.ts"

/** What a request names. */
export interface Named {
  readonly customer: string
  readonly payment_method?: string | undefined
}

/** A payment method, and whether it is to be attached to its customer first. */
interface NamedMethod {
  readonly method: AttachedMethod
  readonly isNew: boolean
}

/** Who pays; what is wrong is said by the step that it is wrong in. */
export interface Payer {
  /** By its ID, whatever its clock does. */
  readonly found: Exit.Exit<CustomerRow, Problem>
  /** Now, in the customer's clock; of one that stands. */
  readonly now: Exit.Exit<number, Problem>
  /** The method named; undefined: none is. */
  readonly named: Exit.Exit<NamedMethod | undefined, Problem>
  /** The default payment method. */
  readonly byDefault: AttachedMethod | undefined
}

/** Who pays for each of these; of a customer whom somebody else holds, where that is not to be waited for, `lock_timeout`. */
export const readPayers = Effect.fnUntraced(function* (tenant: Tenant, all: ReadonlyArray<Named>) {
  const ids = [...new Set(all.map(({ customer }) => customer))]
  const refs = ids.map((id): Ref => ({ ...tenantOf(tenant), id }))
  const named = (of: ReadonlyArray<Named>) =>
    of.flatMap(({ customer, payment_method: method }) =>
      method === undefined ? [] : [{ ...tenantOf(tenant), id: customer, method }],
    )
  const waits = yield* WaitForLocks
  const mode = waits ? "SHARE" : "SHARE SKIP LOCKED"
  const [onWallClock, before] = yield* Effect.all(
    [customers.lock(refs, mode, "test_clock_id IS NULL"), findPaymentMethods(named(all))],
    PIPELINED,
  )
  const locked = new Map(onWallClock.map((row) => [row.id, row]))
  const others = ids.filter((id) => !locked.has(id))
  const found = others.length === 0 ? new Map<string, CustomerRow>() : yield* customers.find(tenant, others)
  const onClocks = [...found.values()].filter(({ test_clock_id }) => test_clock_id !== null)
  const times = yield* standingTimes(
    tenant,
    onClocks.map(({ test_clock_id }) => test_clock_id!),
  )
  const standing = onClocks.filter(({ test_clock_id }) => times.get(test_clock_id!)?._tag === "Success")
  for (const row of yield* customers.lock(standing.map(refOf), mode)) locked.set(row.id, row)
  const isLocked = ({ id, test_clock_id: clock }: CustomerRow): boolean =>
    !waits && !locked.has(id) && (clock === null || times.get(clock)?._tag === "Success")
  const rows = new Map([...found, ...locked])
  const defaults = all.flatMap(({ customer, payment_method: method }) => {
    const row = rows.get(customer)
    return method !== undefined || row?.default_payment_method_id == null
      ? []
      : [{ ...refOf(row), method: row.default_payment_method_id }]
  })
  // What was read of customers on clocks was read before they were locked.
  const again = named(all.filter(({ customer }) => found.has(customer) && locked.has(customer)))
  const after = yield* findPaymentMethods([...defaults, ...again])
  const methodOf = (row: CustomerRow, id: string): AttachedMethod | undefined => {
    const key = methodKey(row.id, id)
    const readAgain = row.test_clock_id !== null && locked.has(row.id)
    return readAgain ? after.get(key) : (before.get(key) ?? after.get(key))
  }
  const now = currentTime()
  const buyers: Array<Payer> = []
  for (const { customer, payment_method: id } of all) {
    const row = rows.get(customer)
    const missing = Effect.suspend(() => noSuchReference("customer", customer, "customer"))
    const clock = row?.test_clock_id ?? null
    const onClock = clock === null ? Effect.succeed(now) : asReference(times.get(clock) ?? missing, "customer")
    const time = row === undefined ? missing : onClock
    const method =
      row === undefined || id === undefined
        ? Effect.succeed(undefined)
        : Effect.suspend((): Effect.Effect<NamedMethod, Problem> => {
            const attached = methodOf(row, id)
            return attached === undefined
              ? Effect.map(newTestMethod(row, id, "payment_method"), (method) => ({ method, isNew: true }))
              : Effect.succeed({ method: attached, isNew: false })
          })
    const byDefault = row?.default_payment_method_id == null ? undefined : methodOf(row, row.default_payment_method_id)
    const found = row === undefined ? missing : isLocked(row) ? LOCKED : Effect.succeed(row)
    buyers.push({
      found: yield* Effect.exit(found),
      now: yield* Effect.exit(time),
      named: yield* Effect.exit(method),
      byDefault,
    })
  }
  return buyers
})

/** What a customer pays by. */
export interface Paying extends NamedMethod {
  readonly customer: CustomerRow
  readonly now: number
}

/** What a buyer pays by, named or by default; undefined: there is neither. */
export const payingBy = (
  { byDefault }: Payer,
  named: NamedMethod | undefined,
  customer: CustomerRow,
  now: number,
): Paying | undefined => {
  const by = named ?? (byDefault === undefined ? undefined : { method: byDefault, isNew: false })
  return by === undefined ? undefined : { ...by, customer, now }
}

/** Attaches what is new among these to its customers. */
export const attachNew = (unit: UnitOfWork, of: ReadonlyArray<Paying>): void =>
  attachMethods(
    unit,
    of.flatMap(({ isNew, customer, method, now }) => (isNew ? [{ customer, method, at: now }] : [])),
  )
