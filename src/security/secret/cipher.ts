/** AES-256-GCM with a fresh nonce each. Encrypted bytes are the nonce, the tag and the text. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto"

const CIPHER = "aes-256-gcm"
const NONCE_BYTES = 12
const TAG_BYTES = 16

export const KEY_BYTES = 32

/** A key for one purpose only, from a secret that has several. */
export const deriveKey = (secret: Uint8Array | string, purpose: string, salt: Uint8Array | string = ""): Uint8Array =>
  new Uint8Array(hkdfSync("sha256", secret, salt, purpose, KEY_BYTES))

/** Only with the same `about` can it be decrypted: what was encrypted for one place is of no use in another. */
export const encrypt = (key: Uint8Array, text: Uint8Array | string, about: string): Uint8Array => {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, key, nonce).setAAD(Buffer.from(about))
  const encrypted = [cipher.update(text), cipher.final()]
  return Buffer.concat([nonce, cipher.getAuthTag(), ...encrypted])
}

/** The text; throws where the key or `about` is another, or a byte was changed. */
export const decrypt = (key: Uint8Array, encrypted: Uint8Array, about: string): Buffer => {
  const decipher = createDecipheriv(CIPHER, key, encrypted.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
    .setAAD(Buffer.from(about))
    .setAuthTag(encrypted.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
  return Buffer.concat([decipher.update(encrypted.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()])
}
