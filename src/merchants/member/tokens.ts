/** Random secrets of cookies and links. Only their SHA-256 is stored. */
import { hash, randomBytes } from "node:crypto"

/** 256 random bits in base64url. */
export const randomToken = (): string => randomBytes(32).toString("base64url")

/** Whether a text can be such a token; others need no look-up. */
export const isToken = (text: string): boolean => /^[A-Za-z0-9_-]{43}$/.test(text)

export const sha256 = (text: string): Uint8Array => hash("sha256", text, "buffer")
