/**
 * Secrets at rest: sealed under ENCRYPTION_KEY, so that a dump of the database alone reveals none. The newest key seals,
 * all that are configured open. A sealed secret is the mark of its key (a format byte and 8 bytes that tell the key), then
 * what cipher.ts encrypts.
 */
import { Context, Effect, Layer, Redacted } from "effect"
import { ConfigProblem, type EncryptionKey } from "../../config/Config.ts"
import { decrypt, deriveKey, encrypt } from "./cipher.ts"

const FORMAT = 1
const ID_BYTES = 8

export const MARK_BYTES = 1 + ID_BYTES

/** Where a secret is kept, from its table down: it opens nowhere else. */
export type Place = readonly [table: string, ...key: ReadonlyArray<string | boolean>]

/** A configured key: what it is known by in the secrets that it sealed, and what encrypts them. */
interface Lock {
  readonly mark: Buffer
  readonly key: Uint8Array
}

const lockOf = (configured: EncryptionKey): Lock => {
  const secret = Redacted.value(configured)
  return {
    mark: Buffer.concat([Buffer.from([FORMAT]), deriveKey(secret, "id").subarray(0, ID_BYTES)]),
    key: deriveKey(secret, "seal"),
  }
}

const aboutOf = (place: Place): string => JSON.stringify(place)

export class Vault extends Context.Service<
  Vault,
  {
    /** Marks of the keys of this process in hexadecimal, the newest first: secrets that begin with another it cannot open. */
    readonly marks: ReadonlyArray<string>
    readonly seal: (place: Place, secret: Redacted.Redacted<string | Uint8Array>) => Uint8Array
    /** What was sealed for this place; fails where no key of this process opens it. */
    readonly open: (place: Place, sealed: Uint8Array) => Effect.Effect<Redacted.Redacted<Buffer>, ConfigProblem>
  }
>()("billing/secret/Vault") {
  /** Keys newest first, at least one. */
  static readonly layer = (keys: ReadonlyArray<EncryptionKey>): Layer.Layer<Vault> =>
    Layer.sync(Vault, () => {
      const locks = keys.map(lockOf)
      const [newest] = locks as [Lock, ...Array<Lock>]
      return Vault.of({
        marks: locks.map(({ mark }) => mark.toString("hex")),
        seal: (place, secret) =>
          Buffer.concat([newest.mark, encrypt(newest.key, Redacted.value(secret), aboutOf(place))]),
        open: (place, sealed) =>
          Effect.try({
            try: () => {
              const lock = locks.find(({ mark }) => mark.equals(sealed.subarray(0, MARK_BYTES)))
              return Redacted.make(decrypt(lock!.key, sealed.subarray(MARK_BYTES), aboutOf(place)))
            },
            catch: () =>
              new ConfigProblem({
                message: `No ENCRYPTION_KEY of this process opens what is sealed in ${place.join(" ")}: set the key that it was sealed under, which in development lies in the DATA_DIR of whoever sealed it.`,
              }),
          }),
      })
    })
}
