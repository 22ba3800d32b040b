/** `vertical …`: a merchant's business type. */
import { Effect } from "effect"
import { Command, Flag } from "effect/cli"
import { findAccount } from "../account/accounts.ts"
import { VERTICALS } from "../account/verticals.ts"
import { changeVertical } from "../provider/providers.ts"
import { found } from "./failures.ts"
import { migrated } from "./Installation.ts"
import { show } from "./output.ts"
import { accountArgument, oneOfArgument, text } from "./parameters.ts"

/** Who changes what by the command line, as histories name it. */
const OPERATOR = "command line"
/** A reason is a few words that make sense in a history, as administrators give it over HTTP. */
const MIN_REASON_LENGTH = 5
const MAX_REASON_LENGTH = 500

const reasonOption = text("reason", "R").pipe(
  Flag.filter(
    ({ length }) => length >= MIN_REASON_LENGTH && length <= MAX_REASON_LENGTH,
    () => `a text of ${MIN_REASON_LENGTH} to ${MAX_REASON_LENGTH} characters`,
  ),
)

const set = Command.make(
  "set",
  { accountId: accountArgument, vertical: oneOfArgument("VERTICAL", VERTICALS, "V"), reason: reasonOption },
  Effect.fn("vertical.set")(function* ({ accountId, vertical, reason }) {
    const { id } = yield* Effect.flatMap(findAccount(accountId), found("account", accountId))
    yield* show(
      yield* changeVertical({ account_id: id, livemode: false }, { vertical, reason, administrator: OPERATOR }),
    )
  }),
)

export const vertical = Command.make("vertical").pipe(Command.withSubcommands([set]), Command.provide(migrated))
