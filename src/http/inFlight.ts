/** Limits the requests under way of each caller until their responses are written, so that memory is bounded. */
import { Counter } from "../concurrency/Counter.ts"

export interface InFlight {
  /** Counts a request; returns the function that ends it, or undefined if the limit is reached. */
  readonly enter: (name: string) => (() => void) | undefined
}

export const createInFlight = (limit: number): InFlight => {
  const counts = new Counter()
  return {
    enter: (name) => {
      if (counts.of(name) >= limit) return undefined
      counts.add(name, 1)
      return () => counts.add(name, -1)
    },
  }
}
