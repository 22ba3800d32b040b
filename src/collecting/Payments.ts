/**
 * Getting paid for requests: charges of one account that are committed while others of it are at their rail go there next, and
 * are settled, together. One that cannot be settled fails for whoever asked for it, and for nobody else.
 */
import { Context, Effect, Exit, Layer } from "effect"
import type { SqlError } from "effect/sql"
import type { ChargeRow } from "../charge/charge.ts"
import { Together } from "../Together.ts"
import { sameForAll } from "../time.ts"
import { type Codes, type CollectServices, collect, NO_CODES, type Unsettled } from "./collect.ts"

/** Charges of one request, at least one, and when they are attempted, in their customers' clock. */
interface Payment {
  readonly of: ReadonlyArray<ChargeRow>
  readonly now: number
  readonly codes: Codes
}

/** Charges at their rail at once: few, so that their settlement keeps neither the loop nor their customers' rows for long. */
const MAX_CHARGES = 100

const nameOf = ({ of }: Payment): string => of[0]!.id

/** An account's wall clock, or one of its test clocks, each with a now of its own. */
const laneOf = ({ of: [first] }: Payment): string =>
  `${first!.account_id} ${first!.livemode} ${first!.test_clock_id ?? ""}`

type Collected = Exit.Exit<void, SqlError.SqlError>

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
      const together = new Together(yield* Effect.context<CollectServices>(), nameOf, collectAll, {
        laneOf,
        sizeOf: ({ of }) => of.length,
        most: MAX_CHARGES,
      })
      return Payments.of({
        collect: (of, now, codes = NO_CODES) =>
          of.length === 0
            ? Effect.void
            : Effect.flatMap(together.ask({ of, now, codes }), (collected) => collected ?? Effect.void),
      })
    }),
  )
}
