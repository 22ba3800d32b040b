/**
 * The vault encrypts ("seals") secrets under ENCRYPTION_KEY, so that a dump of the database alone reveals none. The newest key
 * seals, and every configured key opens. A sealed secret is the mark of its key (a format byte and 8 bytes that identify the
 * key), followed by the bytes that cipher.ts encrypts.
 */
import { Context, Effect, Layer, Redacted } from "effect"
import { ConfigProblem, type EncryptionKey } from "../../config/Config.ts"
import { decrypt, deriveKey, encrypt } from "./cipher.ts"

const FORMAT = 1
const ID_BYTES = 8

export const MARK_BYTES = 1 + ID_BYTES

/** The place of a secret: its table, then its key there. The secret opens in no other place. */
export type Place = readonly [table: string, ...key: ReadonlyArray<string | boolean>]

/** A configured key: the mark that begins the secrets that it sealed, and the key that encrypts them. */
interface Sealer {
  readonly mark: Buffer
  readonly key: Uint8Array
}

const sealerOf = (configured: EncryptionKey): Sealer => {
  const secret = Redacted.value(configured)
  return {
    mark: Buffer.concat([Buffer.from([FORMAT]), deriveKey(secret, "id").subarray(0, ID_BYTES)]),
    key: deriveKey(secret, "seal"),
  }
}

const associatedDataOf = (place: Place): string => JSON.stringify(place)

export class Vault extends Context.Service<
  Vault,
  {
    /** Marks of this process's keys in hexadecimal, newest first. It cannot open secrets with another mark. */
    readonly marks: ReadonlyArray<string>
    readonly seal: (place: Place, secret: Redacted.Redacted<string | Uint8Array>) => Uint8Array
    /** Opens a secret that was sealed for this place; fails if no key of this process opens it. */
    readonly open: (place: Place, sealed: Uint8Array) => Effect.Effect<Redacted.Redacted<Buffer>, ConfigProblem>
  }
>()("billing/security/secret/Vault") {
  /** Keys newest first, at least one. */
  static readonly layer = (keys: ReadonlyArray<EncryptionKey>): Layer.Layer<Vault> =>
    Layer.sync(Vault, () => {
      const sealers = keys.map(sealerOf)
      const [newest] = sealers as [Sealer, ...Array<Sealer>]
      return Vault.of({
        marks: sealers.map(({ mark }) => mark.toString("hex")),
        seal: (place, secret) =>
          Buffer.concat([newest.mark, encrypt(newest.key, Redacted.value(secret), associatedDataOf(place))]),
        open: (place, sealed) =>
          Effect.try({
            try: () => {
              const sealer = sealers.find(({ mark }) => mark.equals(sealed.subarray(0, MARK_BYTES)))
              return Redacted.make(decrypt(sealer!.key, sealed.subarray(MARK_BYTES), associatedDataOf(place)))
            },
            catch: () =>
              new ConfigProblem({
                message: `No ENCRYPTION_KEY of this process opens the secret in ${place.join(" ")}: set the key that it was sealed under. In development, this key is in the DATA_DIR of the process that sealed it.`,
              }),
          }),
      })
    })
}
