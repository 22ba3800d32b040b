/** Requests under way at once, by whose they are: until their answers are written, so that what waits in memory is bounded. */
import { Counter } from "../concurrency/Counter.ts"

export interface InFlight {
  /** Takes a place; what it returns gives the place back, and is undefined where there is none. */
  readonly enter: (name: string) => (() => void) | undefined
}

export const createInFlight = (most: number): InFlight => {
  const counts = new Counter()
  return {
    enter: (name) => {
      if (counts.of(name) >= most) return undefined
      counts.add(name, 1)
      return () => counts.add(name, -1)
    },
  }
}
