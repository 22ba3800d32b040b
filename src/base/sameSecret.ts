/** Comparing secrets and signatures that callers send. */
import { timingSafeEqual } from "node:crypto"

/** Compares in constant time: the duration does not reveal how many characters match. */
export const isSame = (candidate: string, secret: string): boolean => {
  const [a, b] = [Buffer.from(candidate), Buffer.from(secret)]
  return a.length === b.length && timingSafeEqual(a, b)
}
