/** The team of the account (decision R2): its members, invitations, roles. */
import { Effect } from "effect"
import { isProblem, noSuch } from "../base/problem.ts"
import {
  changeRole,
  invite,
  listMembers,
  type MemberRow,
  removeMember,
  type TeamChanger,
} from "../merchants/member/members.ts"
import { endSessionsOf } from "../merchants/member/sessions.ts"
import { type MemberView, memberMain, teamMain } from "../pages/dashboard/team.ts"
import { ROLES, type Role } from "../security/role/rights.ts"
import { ACCOUNT_PAGE, again, changing, formOf, type Refused, readingAccount } from "./account.ts"
import { DashboardSettings } from "./DashboardSettings.ts"
import { goTo, memberPage, show, type Viewer, withNotice } from "./pages.ts"
import { readEmail } from "./signIn.ts"

/** Members on a page: with the longest addresses it has less than 60 KB. */
const SHOWN = 50

const viewOf = ({ session }: Viewer, { id, email, role, joined_at, invited_until }: MemberRow): MemberView => ({
  id,
  email,
  role,
  joinedAt: joined_at,
  invitedUntil: invited_until,
  isYou: id === session.member_id,
})

const showTeam = Effect.fnUntraced(function* (
  viewer: Viewer,
  refused: Refused = {},
  status = 200,
  link: string | null = null,
) {
  const after = viewer.search.get("starting_after")
  const team = yield* readingAccount(viewer, listMembers(viewer.session.account_id))
  const rows = team.filter(({ id }) => after === null || id > after)
  const shown = rows.slice(0, SHOWN)
  const view = {
    ...formOf(viewer, refused),
    typed: refused.form?.typed ?? new Map([["role", ["support"]]]),
    members: shown.map((row) => viewOf(viewer, row)),
    invitationLink: link,
    pages: {
      first: after === null ? null : "/dashboard/team",
      next: rows.length > SHOWN ? `/dashboard/team?starting_after=${shown.at(-1)!.id}` : null,
      csv: null,
    },
  }
  return show(viewer, "Team", teamMain(view), status)
})

const showMember = Effect.fnUntraced(function* (viewer: Viewer, refusal: string | null = null, status = 200) {
  const id = viewer.params.id!
  const team = yield* readingAccount(viewer, listMembers(viewer.session.account_id))
  const row = team.find((one) => one.id === id)
  if (row === undefined) return yield* noSuch("member", id)
  const { formToken } = viewer
  return show(viewer, row.email, memberMain({ ...viewOf(viewer, row), refusal, formToken }), status)
})

const isRole = (text: string): text is Role => (ROLES as ReadonlyArray<string>).includes(text)

const changer = ({ session }: Viewer): TeamChanger => ({ member: session.member_id })

const memberObject = ({ id }: { readonly id: string }) => ({ kind: "member", id })

const team = memberPage("/dashboard/team", ACCOUNT_PAGE, {
  GET: (viewer) => showTeam(viewer),
  POST: Effect.fnUntraced(function* (viewer, form) {
    const { session, origin } = viewer
    const [email, role] = [readEmail(form.get("email")), form.get("role")]
    const wrong = new Map<string, string>()
    if (email === undefined) wrong.set("email", "Type an e-mail address such as ada@example.com.")
    if (!isRole(role)) wrong.set("role", "Choose a role.")
    if (email === undefined || !isRole(role)) return yield* showTeam(viewer, { form, wrong }, 400)
    const inviting = {
      account: session.account_id,
      business: session.business_name,
      by: changer(viewer),
      byName: session.email,
      link: `${origin}/dashboard/invitations/`,
    }
    const { letters } = yield* DashboardSettings
    return yield* changing(viewer, "member.invite", memberObject, invite(inviting, email, role)).pipe(
      Effect.flatMap(({ link }) =>
        letters === null
          ? Effect.succeed(goTo(withNotice("/dashboard/team", "invited")))
          : showTeam(viewer, {}, 200, link),
      ),
      Effect.catchIf(isProblem, again(viewer, form, showTeam)),
    )
  }),
})

const one = memberPage("/dashboard/team/:id", ACCOUNT_PAGE, { GET: (viewer) => showMember(viewer) })

const teamRole = memberPage("/dashboard/team/:id/role", ACCOUNT_PAGE, {
  POST: Effect.fnUntraced(function* (viewer, form) {
    const { session, params } = viewer
    const role = form.get("role")
    if (!isRole(role)) return yield* showMember(viewer, "Choose a role.", 400)
    const change = changeRole(session.account_id, changer(viewer), params.id!, role)
    return yield* changing(viewer, "member.change_role", memberObject, change).pipe(
      Effect.as(goTo(withNotice("/dashboard/team", "role_changed"))),
      Effect.catchIf(isProblem, ({ message, status }) => showMember(viewer, message, status)),
    )
  }),
})

const teamRemove = memberPage("/dashboard/team/:id/remove", ACCOUNT_PAGE, {
  POST: Effect.fnUntraced(function* (viewer) {
    const { session, params } = viewer
    const removing = removeMember(session.account_id, changer(viewer), params.id!)
    return yield* changing(viewer, "member.remove", memberObject, removing).pipe(
      Effect.flatMap(({ email }) => endSessionsOf(session.account_id, email)),
      Effect.as(goTo(withNotice("/dashboard/team", "member_removed"))),
      Effect.catchIf(isProblem, ({ message, status }) => showMember(viewer, message, status)),
    )
  }),
})

export const teamRoutes = [team, one, teamRole, teamRemove]
