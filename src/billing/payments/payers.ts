/**
 * Reads the customers that requests are about to charge, and their payment methods: for several requests of one tenant, in the running
 * transaction. Locks each customer, so that no payment method is removed while it is used. Locks a customer's test clock before the
 * customer.
 */
import { Effect, type Exit } from "effect"
import { asReference, noSuchReference, type Problem } from "../../base/problem.ts"
import { currentTime } from "../../base/wallClock.ts"
import { type Ref, refOf, type Tenant, tenantOf } from "../../db/tenant.ts"
import type { UnitOfWork } from "../../db/UnitOfWork.ts"
import { LOCKED, WaitForLocks } from "../../postgres/lockWait.ts"
import { PIPELINED } from "../../postgres/pipelining.ts"
import { clockTimes } from "../clock/clocks.ts"
import { type CustomerRow, customers } from "../customer/customer.ts"
import {
  type AttachedMethod,
  attachMethods,
  findPaymentMethods,
  methodKey,
  newTestMethod,
} from "../payment_method/paymentMethods.ts"

/** The customer and the payment method that a request names. */
export interface Named {
  readonly customer: string
  readonly payment_method?: string | undefined
}

/** A payment method, and whether it must first be attached to its customer. */
interface NamedMethod {
  readonly method: AttachedMethod
  readonly isNew: boolean
}

/** The payer of a request. Each field has a failure of its own, so that callers report failures in their own order. */
export interface Payer {
  /** The customer, in any state of its clock. */
  readonly found: Exit.Exit<CustomerRow, Problem>
  /** Now, on the customer's clock; fails while the clock advances. */
  readonly now: Exit.Exit<number, Problem>
  /** The named method; undefined: none is named. */
  readonly named: Exit.Exit<NamedMethod | undefined, Problem>
  /** The default payment method. */
  readonly byDefault: AttachedMethod | undefined
}

/** Reads the payer of each request. Without {@link WaitForLocks}, a customer that another transaction has locked gives `lock_timeout`. */
export const readPayers = Effect.fnUntraced(function* (tenant: Tenant, all: ReadonlyArray<Named>) {
  const ids = [...new Set(all.map(({ customer }) => customer))]
  const refs = ids.map((id): Ref => ({ ...tenantOf(tenant), id }))
  const methodsOf = (of: ReadonlyArray<Named>) =>
    of.map(({ customer, payment_method: method = null }) => ({ ...tenantOf(tenant), id: customer, method }))
  const waits = yield* WaitForLocks
  const mode = waits ? "SHARE" : "SHARE SKIP LOCKED"
  const [onWallClock, before] = yield* Effect.all(
    [customers.lock(refs, mode, "test_clock_id IS NULL"), findPaymentMethods(methodsOf(all))],
    PIPELINED,
  )
  const locked = new Map(onWallClock.map((row) => [row.id, row]))
  const others = ids.filter((id) => !locked.has(id))
  const found = others.length === 0 ? new Map<string, CustomerRow>() : yield* customers.find(tenant, others)
  const onClocks = [...found.values()].filter(({ test_clock_id }) => test_clock_id !== null)
  const times = yield* clockTimes(
    tenant,
    onClocks.map(({ test_clock_id }) => test_clock_id!),
  )
  const onReadyClocks = onClocks.filter(({ test_clock_id }) => times.get(test_clock_id!)?._tag === "Success")
  for (const row of yield* customers.lock(onReadyClocks.map(refOf), mode)) locked.set(row.id, row)
  const isLocked = ({ id, test_clock_id: clock }: CustomerRow): boolean =>
    !waits && !locked.has(id) && (clock === null || times.get(clock)?._tag === "Success")
  const rows = new Map([...found, ...locked])
  // The methods of customers on clocks were read before the lock: read them again.
  const after = yield* findPaymentMethods(
    methodsOf(all.filter(({ customer }) => found.has(customer) && locked.has(customer))),
  )
  const methodOf = (row: CustomerRow, id: string): AttachedMethod | undefined => {
    const key = methodKey(row.id, id)
    const readAgain = row.test_clock_id !== null && locked.has(row.id)
    return readAgain ? after.get(key) : (before.get(key) ?? after.get(key))
  }
  const now = currentTime()
  const payers: Array<Payer> = []
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
    payers.push({
      found: yield* Effect.exit(found),
      now: yield* Effect.exit(time),
      named: yield* Effect.exit(method),
      byDefault,
    })
  }
  return payers
})

/** A customer and the payment method to charge. */
export interface Paying extends NamedMethod {
  readonly customer: CustomerRow
  readonly now: number
}

/** Returns the payment method to charge: the named one, else the default; undefined: neither exists. */
export const payingBy = (
  { byDefault }: Payer,
  named: NamedMethod | undefined,
  customer: CustomerRow,
  now: number,
): Paying | undefined => {
  const chosen = named ?? (byDefault === undefined ? undefined : { method: byDefault, isNew: false })
  return chosen === undefined ? undefined : { ...chosen, customer, now }
}

/** Attaches the new payment methods among these to their customers. */
export const attachNew = (unit: UnitOfWork, of: ReadonlyArray<Paying>): void =>
  attachMethods(
    unit,
    of.flatMap(({ isNew, customer, method, now }) => (isNew ? [{ customer, method, at: now }] : [])),
  )
