/** `account …`: merchants, made, shown, put on another API plan, let into live. */
import { Effect } from "effect"
import { Command, Flag } from "effect/cli"
import { LIVE_ACCESS_MOVES } from "../../machines/live_access.ts"
import {
  createAccount,
  findAccount,
  listAccounts,
  moveLiveAccess,
  renderAccount,
  setPlan,
} from "../account/accounts.ts"
import { VERTICALS } from "../account/verticals.ts"
import { API_PLANS } from "../apiPlans.ts"
import { found, Refused } from "./failures.ts"
import { Installation, migrated } from "./Installation.ts"
import { show } from "./output.ts"
import { accountArgument, emailOption, oneOf, oneOfArgument, text } from "./parameters.ts"

const RAILS = ["simulator", "paystack", "flutterwave"] as const

const create = Command.make(
  "create",
  {
    businessName: text("business-name", "X"),
    email: emailOption("email").pipe(Flag.withDefault(undefined)),
    vertical: oneOf("vertical", VERTICALS, "V").pipe(Flag.withDefault(undefined)),
    apiPlan: oneOf("api-plan", API_PLANS, "P").pipe(Flag.withDefault(undefined)),
    liveAccess: oneOf("live-access", ["approved"]).pipe(Flag.withDefault(undefined)),
  },
  Effect.fn("account.create")(function* ({ businessName, email, vertical, apiPlan, liveAccess }) {
    const { account, keys } = yield* createAccount({
      businessName,
      ...(email === undefined ? {} : { email }),
      ...(vertical === undefined ? {} : { vertical }),
      ...(apiPlan === undefined ? {} : { apiPlan }),
      ...(liveAccess === undefined ? {} : { liveAccess }),
    })
    yield* show({ account: renderAccount(account, false), keys })
  }),
)

const showOne = Command.make(
  "show",
  { id: accountArgument },
  Effect.fn("account.show")(function* ({ id }) {
    const row = yield* Effect.flatMap(findAccount(id), found("account", id))
    yield* show(renderAccount(row, false))
  }),
)

const list = Command.make(
  "list",
  {},
  Effect.fn("account.list")(function* () {
    const rows = yield* listAccounts
    yield* show(rows.map((row) => renderAccount(row, false)))
  }),
)

const changePlan = Command.make(
  "set-plan",
  { id: accountArgument, plan: oneOfArgument("PLAN", API_PLANS) },
  Effect.fn("account.setPlan")(function* ({ id, plan }) {
    const account = yield* Effect.flatMap(setPlan(id, plan), found("account", id))
    yield* show(renderAccount(account, false))
  }),
)

const liveAccess = Command.make(
  "live-access",
  { id: accountArgument, move: oneOfArgument("MOVE", LIVE_ACCESS_MOVES) },
  Effect.fn("account.liveAccess")(function* ({ id, move }) {
    const { account, refused } = yield* Effect.flatMap(moveLiveAccess(id, move), found("account", id))
    if (refused) {
      const message = `Live access of ${id} is ${account.live_access}: it cannot ${move} from there.`
      return yield* new Refused({ message })
    }
    yield* show(renderAccount(account, false))
  }),
)

const chooseRail = Command.make(
  "rail",
  { id: accountArgument, rail: oneOfArgument("RAIL", RAILS, "simulator") },
  Effect.fn("account.rail")(function* ({ id, rail }) {
    const { config } = yield* Installation
    const account = yield* Effect.flatMap(findAccount(id), found("account", id))
    if (rail !== "simulator")
      return yield* new Refused({ message: `The rail ${rail} is not part of this version yet.` })
    if (config.production)
      return yield* new Refused({ message: "The simulator charges nobody: production refuses it in live." })
    yield* show(renderAccount(account, false))
  }),
)

export const account = Command.make("account").pipe(
  Command.withSubcommands([create, showOne, list, changePlan, liveAccess, chooseRail]),
  Command.provide(migrated),
)
