/** Secrets and signatures that callers show. */
import { timingSafeEqual } from "node:crypto"

/** Compares without telling by the time it takes how far the two agree. */
export const isSame = (given: string, right: string): boolean => {
  const [a, b] = [Buffer.from(given), Buffer.from(right)]
  return a.length === b.length && timingSafeEqual(a, b)
}
