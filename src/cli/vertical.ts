/** `vertical …`: a merchant's business type. */
import { Effect, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { findAccount } from "../merchants/account/accounts.ts"
import { VERTICALS } from "../merchants/account/verticals.ts"
import { reason } from "../merchants/provider/api.ts"
import { changeVertical } from "../merchants/provider/providers.ts"
import { found } from "./failures.ts"
import { writable } from "./Installation.ts"
import { show } from "./output.ts"
import { accountArgument, oneOfArgument, text } from "./parameters.ts"
import { ofAccount, recording } from "./recording.ts"

/** The name of the command line in change histories. */
const OPERATOR = "command line"

const reasonOption = text("reason", "R").pipe(Flag.filter(Schema.is(reason), () => "5 to 500 characters that say why"))

const set = Command.make(
  "set",
  { accountId: accountArgument, vertical: oneOfArgument("VERTICAL", VERTICALS, "V"), reason: reasonOption },
  Effect.fn("vertical.set")(function* ({ accountId, vertical, reason }) {
    const { id } = yield* Effect.flatMap(findAccount(accountId), found("account", accountId))
    const change = changeVertical({ account_id: id, livemode: false }, { vertical, reason, administrator: OPERATOR })
    yield* show(yield* recording(change, () => ofAccount(id, "account.set_vertical")))
  }),
)

export const vertical = Command.make("vertical").pipe(Command.withSubcommands([set]), Command.provide(writable))
