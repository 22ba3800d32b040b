/** Random secrets of cookies, links and forms. Only their SHA-256 is stored. */
import { hash, randomBytes } from "node:crypto"
import { Effect } from "effect"
import { Cell } from "../../base/cell.ts"

/** 256 random bits in base64url: the number of a try of a form. */
export const newAttempt = (): string => randomBytes(32).toString("base64url")

/** Whether a text can be the number of a try. */
export const isAttempt = (text: string): boolean => /^[A-Za-z0-9_-]{43}$/.test(text)

/** Makes the secret of a cookie or a link: the cell, by which a proxy selects the servers (decision O2), and 256 random bits. */
export const newToken = Effect.gen(function* () {
  return `${yield* Cell}${newAttempt()}`
})

/** Whether a text can be such a secret, of any cell: others need no look-up. */
export const isToken = (text: string): boolean => /^[0-9A-Za-z]{2}[A-Za-z0-9_-]{43}$/.test(text)

export const sha256 = (text: string): Uint8Array => hash("sha256", text, "buffer")
