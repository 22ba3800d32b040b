/**
 * Getting paid for requests: charges of one account that are committed while others of it are at their rail go there next, and
 * are settled, together. One that cannot be settled fails for whoever asked for it, and for nobody else; one whose rows somebody
 * else holds is settled behind the others, by its customer, and is answered as it stands where that takes long.
 */
import { Cause, Context, Effect, Exit, Layer } from "effect"
import type { SqlError } from "effect/sql"
import type { ChargeRow } from "../charge/charge.ts"
import { isLockTimeout, MayWait } from "../db/held.ts"
import { Places } from "../db/Places.ts"
import type { Problem } from "../problem.ts"
import { Together } from "../Together.ts"
import { sameForAll } from "../time.ts"
import { type Codes, type CollectServices, collect, NO_CODES, recoverCharges, type Unsettled } from "./collect.ts"

/** Charges of one request, at least one, and when they are attempted, in their customers' clock. */
interface Payment {
  readonly of: ReadonlyArray<ChargeRow>
  readonly now: number
  readonly codes: Codes
}

/** Charges at their rail at once: few, so that their settlement keeps neither the loop nor their customers' rows for long. */
const MAX_CHARGES = 100

/** Payments that are settled behind the others at once, and of one account: most connections are left to those. */
const BEHIND_AT_ONCE = 4
const BEHIND_SHARE = 2
/** For how long a request waits for one that is settled behind the others; it goes on without it (decision P11). */
const MAX_WAIT_MS = 3_000

const nameOf = ({ of }: Payment): string => of[0]!.id

/** An account's wall clock, or one of its test clocks, each with a now of its own. */
const laneOf = ({ of: [first] }: Payment): string =>
  `${first!.account_id} ${first!.livemode} ${first!.test_clock_id ?? ""}`

const customerOf = ({ of: [first] }: Payment): string => `${first!.account_id} ${first!.customer_id}`

type Collected = Exit.Exit<void, SqlError.SqlError>

/** Whether all that went wrong with a payment is that somebody else holds what it needs. */
const isHeld = (collected: Collected): boolean =>
  Exit.isFailure(collected) &&
  collected.cause.reasons.every((reason) => Cause.isFailReason(reason) && isLockTimeout(reason.error))

const collectAll = Effect.fnUntraced(function* (payments: ReadonlyArray<Payment>) {
  const unsettled: Unsettled = new Map()
  // The wall clock has gone on while they waited; a test clock stands.
  const now = Math.max(...payments.map((payment) => payment.now))
  yield* collect(
    payments.flatMap(({ of }) => of),
    sameForAll(now),
    { codes: new Map(payments.flatMap(({ codes }) => [...codes])), unsettled },
  )
  return new Map<string, Collected>(
    payments.map((payment) => {
      const cause = payment.of.map(({ id }) => unsettled.get(id)).find((found) => found !== undefined)
      return [nameOf(payment), cause === undefined ? Exit.void : Exit.failCause(cause)]
    }),
  )
})

/** Finishes what others hold, once it is free: their rail has answered. */
const finishAll = Effect.fnUntraced(function* (payments: ReadonlyArray<Payment>) {
  const finishing = ({ of }: Payment) =>
    Effect.exit(Effect.forEach(of, ({ id }) => recoverCharges({ chargeId: id }), { discard: true }))
  return new Map(
    yield* Effect.forEach(payments, (payment) =>
      Effect.map(finishing(payment), (collected): [string, Collected] => [nameOf(payment), collected]),
    ),
  )
})

export class Payments extends Context.Service<
  Payments,
  {
    /** Attempts charges, those of one customer's clock at its now; returns once all that follows is settled. */
    readonly collect: (
      of: ReadonlyArray<ChargeRow>,
      now: number,
      codes?: Codes,
    ) => Effect.Effect<void, SqlError.SqlError>
  }
>()("billing/collecting/Payments") {
  static readonly layer = Layer.effect(
    Payments,
    Effect.gen(function* () {
      const context = yield* Effect.context<CollectServices>()
      const atOnce = new Together(context, nameOf, (all) => Effect.provideService(collectAll(all), MayWait, false), {
        laneOf,
        sizeOf: ({ of }: Payment) => of.length,
        most: MAX_CHARGES,
      })
      const places = new Places(BEHIND_AT_ONCE, BEHIND_SHARE)
      const behind = new Together<Payment, Collected, Problem, CollectServices>(context, nameOf, finishAll, {
        laneOf: customerOf,
        admit: ({ of: [first] }, run) => places.within(first!.account_id, run),
      })
      const finish = (payment: Payment) =>
        Effect.flatMap(behind.ask(payment), (collected) => collected!).pipe(
          // Those that find no place are left to the recovery.
          Effect.catchTag("Problem", () => Effect.void),
          Effect.timeoutOption(MAX_WAIT_MS),
          Effect.asVoid,
        )
      const collectOne = Effect.fnUntraced(function* (payment: Payment) {
        const collected = (yield* atOnce.ask(payment))!
        yield* isHeld(collected) ? finish(payment) : collected
      })
      return Payments.of({
        collect: (of, now, codes = NO_CODES) => (of.length === 0 ? Effect.void : collectOne({ of, now, codes })),
      })
    }),
  )
}
