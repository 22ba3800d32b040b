/** Requests under way at once, by whose they are: until their answers are written, so that what waits in memory is bounded. */

export interface InFlight {
  /** Takes a place; what it returns gives the place back, and is undefined where there is none. */
  readonly enter: (name: string) => (() => void) | undefined
}

export const createInFlight = (most: number): InFlight => {
  const counts = new Map<string, number>()
  return {
    enter: (name) => {
      const count = counts.get(name) ?? 0
      if (count >= most) return undefined
      counts.set(name, count + 1)
      return () => {
        const left = counts.get(name)! - 1
        if (left === 0) counts.delete(name)
        else counts.set(name, left)
      }
    },
  }
}
