/** Fairness by account: each that has something to do gets a turn before any gets another. */
import { Effect } from "effect"

/**
 * Takes what is next, account after account. `firstAfter` finds the next piece of work of the first account after the given
 * one, in order of their IDs; `""` is before all of them.
 */
export const roundRobin = () => {
  let last = ""
  return Effect.fnUntraced(function* <Row extends { readonly account_id: string }, E, R>(
    firstAfter: (account: string) => Effect.Effect<ReadonlyArray<Row>, E, R>,
  ) {
    const [next] = yield* firstAfter(last)
    const [found] = next !== undefined || last === "" ? [next] : yield* firstAfter("")
    last = found?.account_id ?? ""
    return found
  })
}
