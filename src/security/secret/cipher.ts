/** Encrypts and decrypts by AES-256-GCM, with a new nonce each time. Encrypted bytes are the nonce, the tag and the text. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto"

const CIPHER = "aes-256-gcm"
const NONCE_BYTES = 12
const TAG_BYTES = 16

export const KEY_BYTES = 32

/** Derives a key for one purpose from a secret that serves several. */
export const deriveKey = (secret: Uint8Array | string, purpose: string, salt: Uint8Array | string = ""): Uint8Array =>
  new Uint8Array(hkdfSync("sha256", secret, salt, purpose, KEY_BYTES))

/** Encrypts a text. `about` is associated data: decryption needs the same, so a text for one place cannot be used in another. */
export const encrypt = (key: Uint8Array, text: Uint8Array | string, about: string): Uint8Array => {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, key, nonce).setAAD(Buffer.from(about))
  const encrypted = [cipher.update(text), cipher.final()]
  return Buffer.concat([nonce, cipher.getAuthTag(), ...encrypted])
}

/** Returns the text; throws if the key or `about` differs, or if a byte was changed. */
export const decrypt = (key: Uint8Array, encrypted: Uint8Array, about: string): Buffer => {
  const decipher = createDecipheriv(CIPHER, key, encrypted.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
    .setAAD(Buffer.from(about))
    .setAuthTag(encrypted.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
  return Buffer.concat([decipher.update(encrypted.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()])
}
