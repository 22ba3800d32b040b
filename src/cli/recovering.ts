/** The work of `rail recover`: enters the charges that were made after the backup that was restored (decision F9). */
import { Effect, Layer } from "effect"
import { serviceSettings, servicesLayer } from "../app/services.ts"
import { findAccount } from "../merchants/account/accounts.ts"
import { Rails } from "../rails/rail/Rails.ts"
import { type RecoveryOptions, recover as recoverAll } from "../rails/recovery/recover.ts"
import { encryptionKeys } from "../security/secret/encryptionKeys.ts"
import { found } from "./failures.ts"
import { Installation } from "./Installation.ts"

/** Asks the rails and enters the charges; returns the counts, and why rails could not be asked. */
export const recover = Effect.fnUntraced(function* (filter: RecoveryOptions) {
  const { config, url } = yield* Installation
  const services = servicesLayer(url, yield* encryptionKeys(config), serviceSettings(config)).pipe(
    Layer.provideMerge(Rails.layer(config.rails)),
  )
  const recovering = Effect.gen(function* () {
    if (filter.accountId !== undefined)
      yield* Effect.flatMap(findAccount(filter.accountId), found("account", filter.accountId))
    return yield* recoverAll(filter)
  })
  return yield* Effect.scoped(recovering).pipe(Effect.provide(services))
})
