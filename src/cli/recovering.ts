/** What `rail recover` does: the charges that were made after a backup which is put back are entered again (decision F9). */
import { Effect, Layer } from "effect"
import { houseRules, servicesLayer } from "../app/services.ts"
import { findAccount } from "../merchants/account/accounts.ts"
import { Rails } from "../rails/rail/Rails.ts"
import { recover as recoverAll, type Wanted } from "../rails/recovery/recover.ts"
import { encryptionKeys } from "../security/secret/encryptionKeys.ts"
import { found } from "./failures.ts"
import { Installation } from "./Installation.ts"

/** Asks and enters, and returns how that went: what was counted, and why rails could not be asked. */
export const recover = Effect.fnUntraced(function* (wanted: Wanted) {
  const { config, url } = yield* Installation
  const services = servicesLayer(url, yield* encryptionKeys(config), houseRules(config)).pipe(
    Layer.provideMerge(Rails.layer(config.rails)),
  )
  const recovering = Effect.gen(function* () {
    if (wanted.accountId !== undefined)
      yield* Effect.flatMap(findAccount(wanted.accountId), found("account", wanted.accountId))
    return yield* recoverAll(wanted)
  })
  return yield* Effect.scoped(recovering).pipe(Effect.provide(services))
})
