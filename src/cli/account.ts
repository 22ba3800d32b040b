/** `account …`: creates, shows and moves merchants' accounts; changes their API plan, live access and rail. */
import { Effect } from "effect"
import { Command, Flag } from "effect/cli"
import { LIVE_ACCESS_MOVES } from "../../machines/live_access.ts"
import { API_PLANS } from "../base/apiPlans.ts"
import { Cell } from "../base/cell.ts"
import {
  type AccountRow,
  createAccount,
  findAccount,
  listAccounts,
  renderAccount,
  setPlan,
  transitionLiveAccess,
} from "../merchants/account/accounts.ts"
import { VERTICALS } from "../merchants/account/verticals.ts"
import { replaceCredentials, switchRail } from "../rails/credential/credentials.ts"
import { isOutside, RAILS, type RailName } from "../rails/rail/Rail.ts"
import { readCredentials } from "./credentialsFile.ts"
import { cellsOption, inEveryCell, migratedCells } from "./everyCell.ts"
import { BadUsage, found, Refused } from "./failures.ts"
import { Installation, onMigrated, onWritable, vaultOfServers } from "./Installation.ts"
import { show } from "./output.ts"
import { accountArgument, databaseOption, emailOption, nameOption, oneOf, oneOfArgument, text } from "./parameters.ts"
import { ofAccount, recording } from "./recording.ts"

const MAX_PROXIES = 16

/** An account as the operator sees it. */
const rendered = (row: AccountRow) => ({ ...renderAccount(row, false), rail: row.rail })

const create = Command.make(
  "create",
  {
    businessName: nameOption("business-name", "X"),
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
    yield* show({ account: rendered(account), keys })
  }),
)

const showOne = Command.make(
  "show",
  { id: accountArgument },
  Effect.fn("account.show")(function* ({ id }) {
    const row = yield* Effect.flatMap(findAccount(id), found("account", id))
    yield* show(rendered(row))
  }),
)

const list = Command.make(
  "list",
  { cells: cellsOption },
  Effect.fn("account.list")(function* ({ cells }) {
    const here = Effect.gen(function* () {
      const cell = cells === undefined ? {} : { cell: yield* Cell }
      return (yield* listAccounts).map((row) => ({ ...rendered(row), ...cell }))
    })
    yield* show((yield* inEveryCell(here)).flat())
  }),
).pipe(Command.provide(({ cells }) => migratedCells(cells)))

const changePlan = Command.make(
  "set-plan",
  { id: accountArgument, plan: oneOfArgument("PLAN", API_PLANS) },
  Effect.fn("account.setPlan")(function* ({ id, plan }) {
    const setting = recording(setPlan(id, plan), (account) => account && ofAccount(id, "account.set_plan"))
    yield* show(rendered(yield* Effect.flatMap(setting, found("account", id))))
  }),
)

const liveAccess = Command.make(
  "live-access",
  { id: accountArgument, move: oneOfArgument("MOVE", LIVE_ACCESS_MOVES) },
  Effect.fn("account.liveAccess")(function* ({ id, move }) {
    const moving = recording(transitionLiveAccess(id, move), (moved) =>
      moved === undefined || moved.refused ? undefined : ofAccount(id, `account.${move}_live_access`),
    )
    const { account, refused } = yield* Effect.flatMap(moving, found("account", id))
    if (refused) {
      const message = `Live access of ${id} is ${account.live_access}: it cannot ${move} from there.`
      return yield* new Refused({ message })
    }
    yield* show(rendered(account))
  }),
)

/** Gives an account the credentials in the file, and switches it to their rail. */
const giveFile = Effect.fnUntraced(function* (id: string, rail: RailName, path: string) {
  if (!isOutside(rail)) return yield* new BadUsage({ message: `--credentials: the ${rail} takes none.` })
  const { config } = yield* Installation
  const credentials = yield* readCredentials(path, rail, config.production)
  const replacing = recording(
    replaceCredentials(id, rail, credentials),
    (account) => account && ofAccount(id, "account.replace_credentials"),
  )
  return yield* Effect.flatMap(Effect.provide(replacing, vaultOfServers), found("account", id))
})

/** Switches an account to a rail that it already has credentials for. */
const switchTo = Effect.fnUntraced(function* (id: string, rail: RailName) {
  const { config } = yield* Installation
  if (rail === "simulator" && config.production)
    return yield* new Refused({ message: "The simulator takes no real payments: production refuses it in live." })
  const switching = recording(switchRail(id, rail), (switched) =>
    switched === undefined || switched.refused ? undefined : ofAccount(id, "account.switch_rail"),
  )
  const { account, refused } = yield* Effect.flatMap(switching, found("account", id))
  if (refused) return yield* new Refused({ message: `${id} has no credentials of ${rail}: use --credentials.` })
  return account
})

const chooseRail = Command.make(
  "rail",
  {
    id: accountArgument,
    rail: oneOfArgument("RAIL", RAILS),
    path: text("credentials", "FILE").pipe(Flag.withDefault(undefined)),
  },
  Effect.fn("account.rail")(function* ({ id, rail, path }) {
    yield* show(rendered(yield* path === undefined ? switchTo(id, rail) : giveFile(id, rail, path)))
  }),
)

const moveOne = Command.make(
  "move",
  {
    id: accountArgument,
    to: databaseOption("to"),
    proxies: text("proxy", "ADDRESS").pipe(Flag.between(0, MAX_PROXIES), Flag.withDefault([])),
    abandoned: Flag.Boolean("abandon").pipe(Flag.withoutNegation, Flag.withDefault(false)),
  },
  Effect.fn("account.move")(function* ({ id, to, proxies, abandoned }) {
    // It imports all machines: only this command loads it.
    const { abandon, move } = yield* Effect.promise(() => import("./moving.ts"))
    yield* show(yield* abandoned ? abandon(id, to) : move(id, to, proxies))
  }),
)

export const account = Command.make("account").pipe(
  Command.withSubcommands([
    onWritable(create),
    onMigrated(showOne),
    list,
    onWritable(changePlan),
    onWritable(liveAccess),
    onWritable(chooseRail),
    onWritable(moveOne),
  ]),
)
