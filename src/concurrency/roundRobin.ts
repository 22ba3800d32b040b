/** Fair order by account: each account that has work gets a turn before any account gets another. */
import { Effect } from "effect"

/**
 * Creates a function that takes the next piece of work, account after account. `firstAfter` finds the first work of the first account
 * after the given one, in order of account ID; `""` sorts before all accounts.
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
