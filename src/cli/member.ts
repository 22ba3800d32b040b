/** `member …`: members of accounts and their sign-ins, for installations without e-mail. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { SqlClient } from "effect/sql"
import { formatInstant, formatInstantOrNull, HOUR_MS } from "../base/time.ts"
import { unitOfWork } from "../db/UnitOfWork.ts"
import { activity, recordActivity } from "../http/activity.ts"
import { originOf } from "../http/Origin.ts"
import { findAccount } from "../merchants/account/accounts.ts"
import { invite, listMembers, type MemberRow, membersOf } from "../merchants/member/members.ts"
import { createLink, membershipsOf } from "../merchants/member/signIns.ts"
import { ROLES } from "../security/role/rights.ts"
import { found } from "./failures.ts"
import { Installation, onMigrated, onWritable } from "./Installation.ts"
import { show } from "./output.ts"
import { accountOption, emailArgument, emailOption, oneOf } from "./parameters.ts"

/** How long a link signs in. */
const LINK_MS = HOUR_MS

const rendered = ({ id, email, role, created_at, invited_until, joined_at }: MemberRow) => ({
  id,
  email,
  role,
  created_at: formatInstant(created_at),
  joined_at: formatInstantOrNull(joined_at),
  invited_until: formatInstantOrNull(invited_until),
})

const BY_COMMAND = {
  actor_kind: "command_line",
  actor_id: null,
  actor_name: null,
  address: null,
  request_id: null,
} as const

/** Records what a command does to members, in its transaction. */
const record = (action: string, members: ReadonlyArray<{ readonly account_id: string; readonly id: string }>) =>
  Effect.map(unitOfWork, (unit) =>
    recordActivity(
      unit,
      members.map(({ account_id, id }) => activity(membersOf(account_id), BY_COMMAND, action, { kind: "member", id })),
    ),
  )

/** The address of the dashboard's pages with a secret. */
const dashboard = Effect.map(Installation, ({ config }) => `${originOf(config, config.port)}/dashboard`)

const list = Command.make(
  "list",
  { accountId: accountOption },
  Effect.fn("member.list")(function* ({ accountId }) {
    const { id } = yield* Effect.flatMap(findAccount(accountId), found("account", accountId))
    yield* show((yield* listMembers(id)).map(rendered))
  }),
)

const inviteOne = Command.make(
  "invite",
  { accountId: accountOption, email: emailOption("email"), role: oneOf("role", ROLES) },
  Effect.fn("member.invite")(function* ({ accountId, email, role }) {
    const account = yield* Effect.flatMap(findAccount(accountId), found("account", accountId))
    const inviting = {
      account: account.id,
      business: account.business_name,
      by: "operator",
      byName: "The service",
      link: `${yield* dashboard}/invitations/`,
    } as const
    const sql = yield* SqlClient.SqlClient
    const invited = yield* sql.withTransaction(
      Effect.tap(invite(inviting, email.toLowerCase(), role), ({ id }) =>
        record("member.invite", [{ account_id: account.id, id }]),
      ),
    )
    yield* show(invited)
  }),
)

const link = Command.make(
  "link",
  { email: emailArgument },
  Effect.fn("member.link")(function* ({ email: typed }) {
    const email = typed.toLowerCase()
    const sql = yield* SqlClient.SqlClient
    const making = Effect.gen(function* () {
      const members = yield* membershipsOf(email)
      yield* found("member", email)(members[0])
      yield* record("member.create_link", members)
      return yield* createLink(email, LINK_MS)
    })
    const token = yield* sql.withTransaction(making)
    yield* show({ email, link: `${yield* dashboard}/links/${token}` })
  }),
)

export const member = Command.make("member").pipe(
  Command.withSubcommands([onMigrated(list), onWritable(inviteOne), onWritable(link)]),
)
