/** Renders the team: its members, the form that invites one, and the page of one member. */
import { ROLE_SUMMARIES, ROLES, type Role } from "../../security/role/rights.ts"
import { type Html, html } from "../html.ts"
import type { DashboardForm } from "./account.ts"
import { type Choice, errorSummary, type Field, fieldRow, hiddenField, NOTHING_WRONG } from "./fields.ts"
import { facts, notice, type Pages, pageHead, pager, section, status, table, when, words } from "./parts.ts"

const roleChoices: ReadonlyArray<Choice> = ROLES.map((role) => ({
  value: role,
  label: `${words(role)}: ${ROLE_SUMMARIES[role]}`,
}))

const ROLE: Field = { name: "role", label: "Role", kind: "radios", choices: roleChoices }

const INVITE_FIELDS: ReadonlyArray<Field> = [
  { name: "email", label: "E-mail", kind: "email", isRequired: true, maxlength: 254 },
  ROLE,
]

export interface MemberView {
  readonly id: string
  readonly email: string
  readonly role: Role
  readonly joinedAt: number | null
  readonly invitedUntil: number | null
  readonly isYou: boolean
}

export interface TeamView extends DashboardForm {
  readonly members: ReadonlyArray<MemberView>
  /** The link of an invitation that was just made, in development only. */
  readonly invitationLink: string | null
  readonly pages: Pages
}

const since = ({ joinedAt, invitedUntil }: MemberView): Html =>
  joinedAt !== null ? when(joinedAt) : html`${status("invited")} until ${when(invitedUntil)}`

const invitationBox = ({ invitationLink }: TeamView): Html | false =>
  invitationLink !== null &&
  html`<section class="notice warning development" aria-label="Development"><h2>Development</h2><p>No e-mail is set up, so the invitation is here: <a href="${invitationLink}">${invitationLink}</a></p></section>
`

export const teamMain = (view: TeamView): Html =>
  html`${pageHead("Team", "Who may see and do what.")}${invitationBox(view)}${table(
    "Members",
    [
      {
        name: "Member",
        cell: ({ id, email, isYou }: MemberView) =>
          html`<a href="${`/dashboard/team/${id}`}">${email}</a>${isYou && html` <span class="quiet">(you)</span>`}`,
      },
      { name: "Role", cell: ({ role }) => role },
      { name: "Since", cell: since },
    ],
    view.members,
  )}${pager(view.pages)}
${section(
  "Invite a member",
  html`<form method="post" action="/dashboard/team" class="card form">${errorSummary(INVITE_FIELDS, view.wrong, view.refusal)}${hiddenField("form_token", view.formToken)}${INVITE_FIELDS.map(
    (field) => fieldRow(field, view.typed, view.wrong),
  )}<button class="button">Send the invitation</button></form>
`,
)}`

export interface OneMemberView extends MemberView {
  readonly refusal: string | null
  readonly formToken: string
}

/** One member, with the forms that change the role and remove the member. */
export const memberMain = (view: OneMemberView): Html => {
  const { id, email, role, isYou, refusal, formToken } = view
  return html`${pageHead(email, isYou ? "This is you." : null)}${refusal !== null && notice("error", html`<p role="alert" tabindex="-1">${refusal}</p>`)}${facts(
    [
      ["Role", html`${role}: ${ROLE_SUMMARIES[role]}`],
      ["Since", since(view)],
    ],
  )}
${section(
  "Change the role",
  html`<form method="post" action="${`/dashboard/team/${id}/role`}" class="card form">${hiddenField("form_token", formToken)}${fieldRow(ROLE, new Map([["role", [role]]]), NOTHING_WRONG)}<button class="button">Change the role</button></form>
`,
)}${section(
  isYou ? "Leave the account" : "Remove from the account",
  html`<form method="post" action="${`/dashboard/team/${id}/remove`}" class="card form">${hiddenField("form_token", formToken)}<p>${
    isYou
      ? "You are signed out at once, and can come back only if you are invited again."
      : "The member is signed out at once, everywhere, and can come back only if invited again."
  }</p><button class="button danger">${isYou ? "Leave" : "Remove"}</button></form>
`,
)}<p class="section"><a href="/dashboard/team">Team</a></p>`
}
