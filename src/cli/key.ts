/** `key …`: merchants' API keys. A key is shown in full only when it is created. */
import { Effect, Struct } from "effect"
import { Argument, CliError, Command, Flag } from "effect/cli"
import type { Tenant } from "../db/tenant.ts"
import { findAccount } from "../merchants/account/accounts.ts"
import {
  addKey,
  findKey,
  GRACES_MS,
  listKeys,
  readOrigin,
  renderKey,
  revokeKey,
  rollKey,
} from "../security/key/apiKeys.ts"
import { KEY_TYPES } from "../security/key/key.ts"
import { type Level, levelsOf, SCOPE_NAMES, type Scope } from "../security/key/scopes.ts"
import { found } from "./failures.ts"
import { onMigrated, onWritable } from "./Installation.ts"
import { show } from "./output.ts"
import { accountOption, oneOf } from "./parameters.ts"
import { recording } from "./recording.ts"

const MODES = ["test", "live"] as const

const keyArgument = Argument.String("ID")

/** Parses a scope with its level, such as `plans=write`. */
const readScope = Effect.fnUntraced(function* (value: string) {
  const [name, level] = value.split("=")
  const wrong = (expected: string) => new CliError.InvalidValue({ option: "scope", value, expected, kind: "flag" })
  const scope = SCOPE_NAMES.find((scopeName) => scopeName === name)
  if (scope === undefined) return yield* wrong(`one of ${SCOPE_NAMES.join(", ")} with its level, such as plans=write`)
  const levels = levelsOf(scope)
  const scopeLevel = levels.find((candidate) => candidate === level)
  if (scopeLevel === undefined) return yield* wrong(levels.map((allowed) => `${scope}=${allowed}`).join(" or "))
  return [scope, scopeLevel] as const
})

/** The scopes of a key: if a scope is given twice, the last level counts; scopes with the level "none" are left out. */
const scopesOf = (levels: ReadonlyArray<readonly [Scope, Level | "none"]>) =>
  Object.fromEntries([...new Map(levels)].filter(([, level]) => level !== "none"))

/** Changes keys, and records it. */
const changing = <A extends { readonly id: string }, E, R>(
  { account_id, livemode }: Tenant,
  action: string,
  work: Effect.Effect<A, E, R>,
) => recording(work, ({ id }) => ({ tenant: { account_id, livemode }, action, object: { kind: "key", id } }))

const findOne = (id: string) => Effect.flatMap(findKey(id), found("key", id))

const create = Command.make(
  "create",
  {
    accountId: accountOption,
    mode: oneOf("mode", MODES),
    type: oneOf("type", KEY_TYPES),
    scopes: Flag.String("scope").pipe(
      Flag.mapEffect(readScope),
      Flag.withMetavar("plans=write…"),
      Flag.atLeast(0),
      Flag.withDefault([]),
    ),
    origins: Flag.String("origin").pipe(
      Flag.filterMap(readOrigin, () => "an origin such as https://shop.example"),
      Flag.withMetavar("https://…"),
      Flag.atLeast(0),
      Flag.withDefault([]),
    ),
  },
  Effect.fn("key.create")(function* ({ accountId, mode, type, scopes, origins }) {
    const account = yield* Effect.flatMap(findAccount(accountId), found("account", accountId))
    const tenant = { account_id: account.id, livemode: mode === "live" }
    const adding = addKey(tenant, type, { scopes: scopesOf(scopes), origins })
    yield* show(yield* changing(tenant, "key.create", adding))
  }),
).pipe(
  Command.validate(
    Effect.fnUntraced(function* ({ type, scopes, origins }) {
      if (type !== "restricted" && scopes.length > 0) {
        const message = "--scope is for restricted keys: a secret key may do everything."
        return yield* new CliError.ValidationError({ message })
      }
      if (type !== "publishable" && origins.length > 0) {
        const message = "--origin is for publishable keys: no other key may reach a browser."
        return yield* new CliError.ValidationError({ message })
      }
    }),
  ),
)

const list = Command.make(
  "list",
  { accountId: accountOption },
  Effect.fn("key.list")(function* ({ accountId }) {
    const { id } = yield* Effect.flatMap(findAccount(accountId), found("account", accountId))
    yield* show((yield* listKeys(id)).map(renderKey))
  }),
)

const roll = Command.make(
  "roll",
  { id: keyArgument, grace: oneOf("grace", Struct.keys(GRACES_MS)) },
  Effect.fn("key.roll")(function* ({ id, grace }) {
    const old = yield* findOne(id)
    yield* show(yield* changing(old, "key.roll", rollKey(old, grace)))
  }),
)

const revoke = Command.make(
  "revoke",
  { id: keyArgument },
  Effect.fn("key.revoke")(function* ({ id }) {
    const old = yield* findOne(id)
    yield* show(yield* changing(old, "key.revoke", revokeKey(old)))
  }),
)

export const key = Command.make("key").pipe(
  Command.withSubcommands([onWritable(create), onMigrated(list), onWritable(roll), onWritable(revoke)]),
)
