/**
 * Getting paid for requests: charges of one account that are committed while others of it are at their rail go there next, and
 * are settled, together. One that cannot be settled fails for whoever asked for it, and for nobody else; one whose rows somebody
 * else holds is settled behind the others, by its customer, and is answered as it stands where that takes long.
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
import { NewestRows } from "../../runtime/outcome.ts"
import { type ChargeRow, charges } from "../charge/charge.ts"
import {
  type Answered,
  type Codes,
  type CollectServices,
  collect,
  isLocked,
  NO_CODES,
  recoverCharges,
} from "./simulatorCharges.ts"

/** Charges of one request, at least one, and when they are attempted, in their customers' clock. */
interface Payment {
  readonly of: ReadonlyArray<ChargeRow>
  readonly now: number
  readonly codes: Codes
}

/** Charges at their rail at once: few, so that their settlement keeps neither the loop nor their customers' rows for long. */
const MAX_CHARGES = 100

/** Charges that are settled behind the others at once, and of one account: most connections are left to those. */
const BEHIND_AT_ONCE = 4
const BEHIND_SHARE = 2

const nameOf = ({ of }: Payment): string => of[0]!.id

/** An account's wall clock, or one of its test clocks, each with a now of its own. */
const laneOf = ({ of: [first] }: Payment): string => `${tenantName(first!)} ${first!.test_clock_id ?? ""}`

/** What a payment comes to: what went wrong with it, and the charges whose rows somebody else holds, those that followed among them. */
interface Collected {
  readonly outcome: Exit.Exit<void, SqlError.SqlError>
  readonly held: ReadonlyArray<ChargeRow>
  /** Rows as it has left them, with those of others. */
  readonly rows: NewestRows
}

const collectAll = Effect.fnUntraced(function* (payments: ReadonlyArray<Payment>) {
  const unsettled: Answered["unsettled"] = new Map()
  const rows = new NewestRows()
  const asked = payments.flatMap(({ of }) => of)
  // The wall clock has gone on while they waited; a test clock stands.
  const now = Math.max(...payments.map((payment) => payment.now))
  yield* collect(asked, sameForAll(now), {
    codes: new Map(payments.flatMap(({ codes }) => [...codes])),
    told: { unsettled, rows },
  })
  const isAsked = new Set(asked.map(({ id }) => id))
  const held = [...unsettled.values()].flatMap(({ charge, cause }) => (isLocked(cause) ? [charge] : []))
  return new Map(
    payments.map((payment): [string, Collected] => {
      const own = new Set(payment.of.map(({ id }) => id))
      const broken = payment.of
        .map(({ id }) => unsettled.get(id))
        .find((one) => one !== undefined && !isLocked(one.cause))
      // What follows from a payment is its customer's.
      const follows = ({ id, customer_id }: ChargeRow) => !isAsked.has(id) && customer_id === payment.of[0]!.customer_id
      return [
        nameOf(payment),
        {
          outcome: broken === undefined ? Exit.void : Exit.failCause(broken.cause),
          held: held.filter((charge) => own.has(charge.id) || follows(charge)),
          rows,
        },
      ]
    }),
  )
})

/** Finishes charges that somebody holds, one after the other, each once it is free: their rail has answered. */
const finishAll = Effect.fnUntraced(function* (held: ReadonlyArray<ChargeRow>) {
  const sql = yield* SqlClient.SqlClient
  const finishing = Effect.fnUntraced(function* (charge: ChargeRow) {
    // Who takes charges over passes by those that are locked.
    yield* sql.withTransaction(charges.lock([refOf(charge)]))
    yield* recoverCharges({ chargeId: charge.id })
  })
  const finished = yield* Effect.forEach(held, (charge) =>
    Effect.exit(
      Effect.tapCause(finishing(charge), (cause) =>
        Effect.logError("a charge cannot be settled", { charge: charge.id }, cause),
      ),
    ),
  )
  return new Map(held.map(({ id }, at) => [id, finished[at]!]))
})

export class Payments extends Context.Service<
  Payments,
  {
    /**
     * Attempts charges, those of one customer's clock at its now; returns once all that follows is settled, or stands for as long as
     * a request waits for what somebody else holds. Returns the rows that it has left, where nobody held any.
     */
    readonly collect: (
      of: ReadonlyArray<ChargeRow>,
      now: number,
      codes?: Codes,
    ) => Effect.Effect<NewestRows, SqlError.SqlError>
  }
>()("billing/collecting/Payments") {
  static readonly layer = Layer.effect(
    Payments,
    Effect.gen(function* () {
      const context = yield* Effect.context<CollectServices>()
      const atOnce = new Batcher(
        context,
        nameOf,
        (all) => Effect.provideService(collectAll(all), WaitForLocks, false),
        {
          laneOf,
          sizeOf: ({ of }: Payment) => of.length,
          most: MAX_CHARGES,
        },
      )
      const places = new FairSemaphore(BEHIND_AT_ONCE, BEHIND_SHARE)
      const behind = new Batcher<ChargeRow, Exit.Exit<void, SqlError.SqlError>, Problem, CollectServices>(
        context,
        ({ id }) => id,
        finishAll,
        {
          laneOf: ({ account_id, customer_id }) => `${account_id} ${customer_id}`,
          admit: (charge, run) => places.within(tenantName(charge), run),
        },
      )
      /** Waits until held charges are settled, as long as their request may; fails as the first of its own did. */
      const finish = Effect.fnUntraced(function* ({ of }: Payment, held: ReadonlyArray<ChargeRow>) {
        if (held.length === 0) return
        const own = new Set(of.map(({ id }) => id))
        const left = (yield* waitingLimit) - performance.now()
        const finishing = Effect.forEach(
          held,
          (charge) => Effect.flatMap(behind.ask(charge), (exit) => (own.has(charge.id) ? exit! : Effect.void)),
          { concurrency: "unbounded", discard: true },
        )
        yield* finishing.pipe(
          // Those that find no place are left to the recovery.
          Effect.catchTag("Problem", () => Effect.void),
          Effect.timeoutOption(Math.max(left, 0)),
        )
      })
      const collectOne = Effect.fnUntraced(function* (payment: Payment) {
        const { outcome, held, rows } = (yield* atOnce.ask(payment))!
        const finished = yield* Effect.exit(finish(payment, held))
        yield* outcome
        yield* finished
        return held.length === 0 ? rows : new NewestRows()
      })
      return Payments.of({
        collect: (of, now, codes = NO_CODES) =>
          of.length === 0 ? Effect.succeed(new NewestRows()) : collectOne({ of, now, codes }),
      })
    }),
  )
}
