/**
 * Payments collects charges for requests. Charges of one account that arrive while others are at the rail go there next, as a batch.
 * Small batches of all accounts on the wall clock share a transaction. A charge that cannot be settled fails only for its own request. A charge whose rows another transaction has locked is settled in the
 * background, one customer after another; if that takes long, the request returns it unsettled.
 */
import { Context, Effect, Exit, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Problem } from "../../base/problem.ts"
import { sameForAll } from "../../base/time.ts"
import { Batcher } from "../../concurrency/Batcher.ts"
import { FairSemaphore } from "../../concurrency/FairSemaphore.ts"
import { refOf, tenantName } from "../../db/tenant.ts"
import { waitingLimit } from "../../http/ArrivedAt.ts"
import { WaitForLocks } from "../../postgres/lockWait.ts"
import { countsUses } from "../../rails/rail/simulator/methods.ts"
import { NewestRows } from "../../runtime/outcome.ts"
import { type ChargeRow, charges } from "../charge/charge.ts"
import {
  type Codes,
  type CollectServices,
  collect,
  isLocked,
  NO_CODES,
  recoverCharges,
  type SettlementReport,
} from "./simulatorCharges.ts"

/** The charges of one request (at least one), and the time of their attempt on their customers' clock. */
interface Payment {
  readonly of: ReadonlyArray<ChargeRow>
  readonly now: number
  readonly codes: Codes
}

/** Limit of charges in a batch: small, so that settling them blocks neither the event loop nor their customers' rows for long. */
const MAX_CHARGES = 100

/**
 * An account's batch of at most so many charges on the wall clock shares a transaction with those of other accounts. It has one batch at a time
 * there, so it delays the others by little.
 */
const MAX_SHARED = 4
/** How long a shared transaction waits for a lock, which all its accounts wait for. Then each charge is settled alone. */
const SHARED_WAIT_MS = 20

/** Limits of charges settled in the background concurrently, in all and for one account: most connections stay free for the batches. */
const MAX_BACKGROUND = 4
const MAX_BACKGROUND_OF_ACCOUNT = 2

const nameOf = ({ of }: Payment): string => of[0]!.id

/** The key of an account's wall clock or of one of its test clocks; each has its own time. */
const laneOf = ({ of: [first] }: Payment): string => `${tenantName(first!)} ${first!.test_clock_id ?? ""}`

const isOnWallClock = ({ of: [first] }: Payment): boolean => first!.test_clock_id === null

/** Whether the simulator counts a method's uses one after the other: only its own account may wait for that. */
const waitsAtRail = ({ of }: Payment): boolean =>
  of.some(({ payment_method }) => payment_method !== null && countsUses(payment_method.id))

const sizeOf = (payments: ReadonlyArray<Payment>): number => payments.reduce((sum, { of }) => sum + of.length, 0)

/** The result of a payment: its failure, if any, and the charges with locked rows, including charges that follow from it. */
interface Collected {
  readonly outcome: Exit.Exit<void, SqlError.SqlError>
  readonly locked: ReadonlyArray<ChargeRow>
  /** Rows as the payment and others in its batch left them. */
  readonly rows: NewestRows
}

const collectAll = Effect.fnUntraced(function* (payments: ReadonlyArray<Payment>, batchWaitMs?: number) {
  const unsettled: SettlementReport["unsettled"] = new Map()
  const rows = new NewestRows()
  const requested = payments.flatMap(({ of }) => of)
  // The wall clock advanced while the payments waited; a test clock did not.
  const now = Math.max(...payments.map((payment) => payment.now))
  yield* collect(requested, sameForAll(now), {
    codes: new Map(payments.flatMap(({ codes }) => [...codes])),
    report: { unsettled, rows },
    ...(batchWaitMs === undefined ? {} : { batchWaitMs }),
  })
  const requestedIds = new Set(requested.map(({ id }) => id))
  const locked = [...unsettled.values()].flatMap(({ charge, cause }) => (isLocked(cause) ? [charge] : []))
  return new Map(
    payments.map((payment): [string, Collected] => {
      const own = new Set(payment.of.map(({ id }) => id))
      const failed = payment.of
        .map(({ id }) => unsettled.get(id))
        .find((one) => one !== undefined && !isLocked(one.cause))
      // Charges that follow from a payment belong to its customer.
      const follows = ({ id, customer_id }: ChargeRow) =>
        !requestedIds.has(id) && customer_id === payment.of[0]!.customer_id
      return [
        nameOf(payment),
        {
          outcome: failed === undefined ? Exit.void : Exit.failCause(failed.cause),
          locked: locked.filter((charge) => own.has(charge.id) || follows(charge)),
          rows,
        },
      ]
    }),
  )
})

/** Finishes charges whose rows were locked, one by one, each once it is unlocked: the rail has already answered. */
const finishAll = Effect.fnUntraced(function* (locked: ReadonlyArray<ChargeRow>) {
  const sql = yield* SqlClient.SqlClient
  const finishing = Effect.fnUntraced(function* (charge: ChargeRow) {
    // Recovery skips locked rows, so wait for the lock first.
    yield* sql.withTransaction(charges.lock([refOf(charge)]))
    yield* recoverCharges({ chargeId: charge.id })
  })
  const finished = yield* Effect.forEach(locked, (charge) =>
    Effect.exit(
      Effect.tapCause(finishing(charge), (cause) =>
        Effect.logError("a charge cannot be settled", { charge: charge.id }, cause),
      ),
    ),
  )
  return new Map(locked.map(({ id }, at) => [id, finished[at]!]))
})

export class Payments extends Context.Service<
  Payments,
  {
    /**
     * Attempts charges of one customer's clock at `now`. Returns when all that follows is settled, or when the request has waited its limit
     * for locked rows. Returns the rows that the payment left; none if any row was locked.
     */
    readonly collect: (
      of: ReadonlyArray<ChargeRow>,
      now: number,
      codes?: Codes,
    ) => Effect.Effect<NewestRows, SqlError.SqlError>
  }
>()("billing/billing/payments/Payments") {
  static readonly layer = Layer.effect(
    Payments,
    Effect.gen(function* () {
      const context = yield* Effect.context<CollectServices>()
      const collecting = (payments: ReadonlyArray<Payment>, batchWaitMs?: number) =>
        Effect.provideService(collectAll(payments, batchWaitMs), WaitForLocks, false)
      const shared = new Batcher(
        context,
        ([first]: ReadonlyArray<Payment>) => nameOf(first!),
        (batches) =>
          Effect.map(
            collecting(batches.flat(), SHARED_WAIT_MS),
            (collected) => new Map(batches.map(([first]) => [nameOf(first!), collected])),
          ),
        { sizeOf: (payments: ReadonlyArray<Payment>) => sizeOf(payments), most: MAX_CHARGES },
      )
      const batches = new Batcher(
        context,
        nameOf,
        (all) =>
          isOnWallClock(all[0]!) && sizeOf(all) <= MAX_SHARED && !all.some(waitsAtRail)
            ? Effect.map(shared.ask(all), (collected) => collected!)
            : collecting(all),
        {
          laneOf,
          sizeOf: (payment: Payment) => sizeOf([payment]),
          most: MAX_CHARGES,
        },
      )
      const slots = new FairSemaphore(MAX_BACKGROUND, MAX_BACKGROUND_OF_ACCOUNT)
      const background = new Batcher<ChargeRow, Exit.Exit<void, SqlError.SqlError>, Problem, CollectServices>(
        context,
        ({ id }) => id,
        finishAll,
        {
          laneOf: ({ account_id, customer_id }) => `${account_id} ${customer_id}`,
          admit: (charge, run) => slots.within(tenantName(charge), run),
        },
      )
      /** Waits until locked charges are settled, at most as long as their request may; fails like the first failed charge of its own. */
      const finish = Effect.fnUntraced(function* ({ of }: Payment, locked: ReadonlyArray<ChargeRow>) {
        if (locked.length === 0) return
        const own = new Set(of.map(({ id }) => id))
        const remainingMs = (yield* waitingLimit) - performance.now()
        const finishing = Effect.forEach(
          locked,
          (charge) => Effect.flatMap(background.ask(charge), (exit) => (own.has(charge.id) ? exit! : Effect.void)),
          { concurrency: "unbounded", discard: true },
        )
        yield* finishing.pipe(
          // Charges without a free slot are left to the recovery.
          Effect.catchTag("Problem", () => Effect.void),
          Effect.timeoutOption(Math.max(remainingMs, 0)),
        )
      })
      const collectOne = Effect.fnUntraced(function* (payment: Payment) {
        const { outcome, locked, rows } = (yield* batches.ask(payment))!
        const finished = yield* Effect.exit(finish(payment, locked))
        yield* outcome
        yield* finished
        return locked.length === 0 ? rows : new NewestRows()
      })
      return Payments.of({
        collect: (of, now, codes = NO_CODES) =>
          of.length === 0 ? Effect.succeed(new NewestRows()) : collectOne({ of, now, codes }),
      })
    }),
  )
}
