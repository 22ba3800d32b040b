/** Members of an account (decision R2): invites them, changes their role, removes them. */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { newId } from "../../base/ids.ts"
import { invalid, noSuch, type Problem, problem, tryAgainIn } from "../../base/problem.ts"
import { DAY_MS } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import type { Tenant } from "../../db/tenant.ts"
import { may, type Role } from "../../security/role/rights.ts"
import { lockAccount } from "../account/accounts.ts"
import { emailTo } from "../account/letters.ts"
import { newToken, sha256 } from "./tokens.ts"

export interface MemberRow extends Tenant {
  readonly id: string
  readonly email: string
  readonly role: Role
  readonly created_at: number
  readonly invited_until: number | null
  /** null: only invited. */
  readonly joined_at: number | null
  readonly removed_at: number | null
}

/** Members that an account may have: a list of them is one page. */
const MAX_MEMBERS = 200
const INVITATION_DAYS = 7

/** The tenant of an account's members: they belong to both environments, and their rows are with the live data. */
export const membersOf = (account: string): Tenant => ({ account_id: account, livemode: true })

const COLUMNS = "account_id, livemode, id, email, role, created_at, invited_until, joined_at, removed_at"

/** Lists the members of an account that are not removed, in order of their invitation. */
export const listMembers = Effect.fn("member.list")(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<MemberRow>`
    SELECT ${sql.literal(COLUMNS)} FROM member WHERE account_id = ${account} AND livemode AND removed_at IS NULL ORDER BY id`
})

/** Who changes a team: a member by ID, or the person who runs the installation, who may do everything. */
export type TeamChanger = { readonly member: string } | "operator"

const GONE = problem("role_insufficient", "You are no member of this account any more, or your role has changed.")

/**
 * Locks the account, so that its team changes by one transaction at a time, and reads the members. Returns them with the role of the
 * changer, which another change may have taken away since the page was loaded.
 */
const lockTeam = Effect.fnUntraced(function* (account: string, by: TeamChanger) {
  yield* lockAccount(account)
  const team = yield* listMembers(account)
  if (by === "operator") return { team, byRole: "owner" as const }
  const byRole = team.find(({ id, joined_at }) => id === by.member && joined_at !== null)?.role
  return byRole !== undefined && may(byRole, "account", true) ? { team, byRole } : yield* GONE
})

const find = (team: ReadonlyArray<MemberRow>, id: string): Effect.Effect<MemberRow, Problem> => {
  const found = team.find((member) => member.id === id)
  return found === undefined ? Effect.fail(noSuch("member", id)) : Effect.succeed(found)
}

const OWNERS_ONLY = problem("role_insufficient", "Only an owner may add, change or remove owners.")
const LAST_OWNER = problem("member_state_invalid", "An account needs an owner: make another member an owner first.")

/** Refuses a change of owners by another role, and the loss of the last owner. */
const checkOwners = (
  team: ReadonlyArray<MemberRow>,
  by: Role,
  from: MemberRow | undefined,
  to: Role | undefined,
): Effect.Effect<void, Problem> => {
  if (by !== "owner" && (from?.role === "owner" || to === "owner")) return Effect.fail(OWNERS_ONLY)
  const isLost = from?.role === "owner" && from.joined_at !== null && to !== "owner"
  const others = team.filter(({ id, role, joined_at }) => id !== from?.id && role === "owner" && joined_at !== null)
  return isLost && others.length === 0 ? Effect.fail(LAST_OWNER) : Effect.void
}

export interface Inviting {
  readonly account: string
  readonly business: string
  readonly by: TeamChanger
  /** Who invites, in the letter. */
  readonly byName: string
  /** The start of the link, to which the token is added. */
  readonly link: string
}

/** Invitations of an account in a day: a whole team. The letters name the business as the account calls it, so they must not serve to advertise. */
const INVITATIONS_OF_ACCOUNT = MAX_MEMBERS
/** Invitations of one address by an account in a day: some that got lost. */
const INVITATIONS_OF_ADDRESS = 5

const TOO_MANY_INVITATIONS = tryAgainIn(
  DAY_MS / 1000,
  problem("sign_in_limit_reached", "Too many invitations were sent today: try again tomorrow."),
)

/** Refuses an invitation beyond the limits. The account is locked; its secret letters are invitations. */
const checkInvitations = Effect.fnUntraced(function* (account: string, email: string) {
  const sql = yield* SqlClient.SqlClient
  const since = PgTypes.timestamptz(currentTime() - DAY_MS)
  const [sent] = yield* sql<{ of_account: number; of_address: number }>`
    SELECT count(*)::integer AS of_account, count(*) FILTER (WHERE recipient = ${email})::integer AS of_address
    FROM letter WHERE account_id = ${account} AND livemode AND is_secret AND created_at > ${since}`
  if (sent!.of_account >= INVITATIONS_OF_ACCOUNT || sent!.of_address >= INVITATIONS_OF_ADDRESS)
    return yield* TOO_MANY_INVITATIONS
})

/** Invites an address, or invites it again with a new link. Returns the member's ID and the link, which the letter contains. */
export const invite = Effect.fn("member.invite")(function* (
  { account, business, by, byName, link }: Inviting,
  email: string,
  role: Role,
) {
  const sql = yield* SqlClient.SqlClient
  const { team, byRole } = yield* lockTeam(account, by)
  const existing = team.find((member) => member.email === email)
  if (existing?.joined_at != null) return yield* invalid("email", `${email} is a member already.`)
  if (existing === undefined && team.length >= MAX_MEMBERS)
    return yield* problem("member_state_invalid", `An account has at most ${MAX_MEMBERS} members: remove one first.`)
  yield* checkOwners(team, byRole, existing, role)
  if (by !== "operator") yield* checkInvitations(account, email)
  const token = yield* newToken
  const until = currentTime() + INVITATION_DAYS * DAY_MS
  const id = existing?.id ?? newId("member")
  yield* existing === undefined
    ? sql`
        INSERT INTO member (account_id, livemode, id, email, role, created_at, invitation_hash, invited_until)
        VALUES (${account}, true, ${id}, ${email}, ${role}, ${PgTypes.timestamptz(currentTime())}, ${sha256(token)}, ${PgTypes.timestamptz(until)})`
    : sql`
        UPDATE member SET role = ${role}, invitation_hash = ${sha256(token)}, invited_until = ${PgTypes.timestamptz(until)}
        WHERE account_id = ${account} AND livemode AND id = ${id}`
  const whole = `${link}${token}`
  const body = `${byName} invites you to the account of ${business}, as ${role}.\n\nJoin: ${whole}\n\nThe link works once, for ${INVITATION_DAYS} days. If you do not know ${business}, ignore this letter.`
  yield* emailTo(membersOf(account), email, { subject: `Join ${business}`, body }, true)
  return { id, link: whole }
})

export const changeRole = Effect.fn("member.changeRole")(function* (
  account: string,
  by: TeamChanger,
  id: string,
  role: Role,
) {
  const sql = yield* SqlClient.SqlClient
  const { team, byRole } = yield* lockTeam(account, by)
  const member = yield* find(team, id)
  yield* checkOwners(team, byRole, member, role)
  yield* sql`UPDATE member SET role = ${role} WHERE account_id = ${account} AND livemode AND id = ${id}`
  return member
})

/** Removes a member. The caller ends the member's sessions in the same moment (sessions.ts). */
export const removeMember = Effect.fn("member.remove")(function* (account: string, by: TeamChanger, id: string) {
  const sql = yield* SqlClient.SqlClient
  const { team, byRole } = yield* lockTeam(account, by)
  const member = yield* find(team, id)
  yield* checkOwners(team, byRole, member, undefined)
  yield* sql`
    UPDATE member SET removed_at = ${PgTypes.timestamptz(currentTime())}, invitation_hash = NULL, invited_until = NULL
    WHERE account_id = ${account} AND livemode AND id = ${id}`
  return member
})
