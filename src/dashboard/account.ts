/** The pages of the account: profile, live access, activity, and the member's own page (decisions R2, R5, R7). The team: team.ts. */

import { Effect } from "effect"
import { isProblem, type Problem } from "../base/problem.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import type { Tenant } from "../db/tenant.ts"
import { unitOfWork } from "../db/UnitOfWork.ts"
import { type ActivityRow, activity, recordActivity } from "../http/activity.ts"
import { findAccount, renameAccount, transitionLiveAccess } from "../merchants/account/accounts.ts"
import { VERTICALS } from "../merchants/account/verticals.ts"
import { newestActivity } from "../merchants/activity/activities.ts"
import { membersOf } from "../merchants/member/members.ts"
import { listPasskeys } from "../merchants/member/passkeys.ts"
import { listSessions, revokeSession } from "../merchants/member/sessions.ts"
import { providerApi } from "../merchants/provider/api.ts"
import { isOpen as canChooseVertical } from "../merchants/provider/providers.ts"
import { accountMain, activityMain, liveAccessMain, meMain } from "../pages/dashboard/account.ts"
import { NOTHING_TYPED, NOTHING_WRONG, type Wrong } from "../pages/dashboard/fields.ts"
import { words } from "../pages/dashboard/parts.ts"
import { may } from "../security/role/rights.ts"
import type { Form } from "./forms.ts"
import { pathOfObject } from "./objects.ts"
import { call, goTo, memberPage, show, type Viewer, withNotice } from "./pages.ts"
import { siteOf } from "./passkeys.ts"

/** Changes the account as its member, or what belongs to one environment (`tenant`), and records it, in one transaction. */
export const changing = <A, E, R>(
  { session, member }: Viewer,
  action: string,
  objectOf: (made: A) => { readonly kind: string; readonly id: string } | null,
  work: Effect.Effect<A, E, R>,
  tenant: Tenant = membersOf(session.account_id),
) =>
  Effect.flatMap(TenantDatabase, ({ writing }) => {
    const actor = {
      actor_kind: "member",
      actor_id: session.member_id,
      actor_name: session.email,
      address: member.address,
      request_id: member.requestId,
    } as const
    const recorded = Effect.gen(function* () {
      const made = yield* work
      recordActivity(yield* unitOfWork, [activity(tenant, actor, action, objectOf(made))])
      return made
    })
    return writing(tenant, recorded)
  })

/** Reads what belongs to the whole account. */
export const readingAccount = <A, E, R>({ session }: Viewer, work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(TenantDatabase, ({ reading }) => reading(membersOf(session.account_id), work))

/** What a page shows of a form after a refusal. */
export interface Refused {
  readonly form?: Form
  readonly wrong?: Wrong
  readonly refusal?: string
}

export const formOf = ({ formToken }: Viewer, { form, wrong = NOTHING_WRONG, refusal }: Refused = {}) => ({
  typed: form?.typed ?? NOTHING_TYPED,
  wrong,
  refusal: refusal ?? null,
  formToken,
})

/** Shows the page again with a refusal: at its field if it names one. */
export const again =
  <R>(viewer: Viewer, form: Form, showPage: (viewer: Viewer, refused: Refused, status: number) => R) =>
  ({ param, message, status }: Problem): R =>
    showPage(
      viewer,
      param !== null && form.typed.has(param)
        ? { form, wrong: new Map([[param, message]]) }
        : { form, refusal: message },
      status,
    )

const showAccount = Effect.fnUntraced(function* (viewer: Viewer, refused: Refused = {}, status = 200) {
  const account = (yield* readingAccount(viewer, findAccount(viewer.session.account_id)))!
  const typed =
    refused.form?.typed ??
    new Map([
      ["business_name", [account.business_name]],
      ["vertical", [account.vertical ?? "generic"]],
    ])
  const view = {
    ...formOf(viewer, refused),
    typed,
    id: account.id,
    apiPlan: account.api_plan,
    liveAccess: account.live_access,
    createdAt: account.created_at,
    verticals: VERTICALS,
    vertical: account.vertical,
    canChooseVertical: canChooseVertical(account),
    rail: may(viewer.session.role, "secrets", true) ? account.rail : null,
  }
  return show(viewer, "Account", accountMain(view), status)
})

const account = memberPage(
  "/dashboard/account",
  { right: "account" },
  {
    GET: (viewer) => showAccount(viewer),
    POST: Effect.fnUntraced(function* (viewer, form) {
      const name = form.get("business_name")
      if (name === "" || name.length > 120) {
        const wrong = new Map([["business_name", "Type the name of the business, at most 120 characters."]])
        return yield* showAccount(viewer, { form, wrong }, 400)
      }
      const { account_id: id } = viewer.session
      yield* changing(viewer, "account.update", () => ({ kind: "account", id }), renameAccount(id, name))
      return goTo(withNotice("/dashboard/account", "account_saved"))
    }),
  },
)

const vertical = memberPage(
  "/dashboard/account/vertical",
  { right: "account" },
  {
    POST: (viewer, form) =>
      call(viewer, providerApi.choose, { body: { vertical: form.get("vertical") } }).pipe(
        Effect.as(goTo(withNotice("/dashboard/account", "account_saved"))),
        Effect.catchIf(isProblem, again(viewer, form, showAccount)),
      ),
  },
)

/** Pages whose forms need a sign-in of the last 15 minutes. */
export const ACCOUNT_PAGE = { right: "account", isSensitive: true } as const

const liveAccess = memberPage("/dashboard/live-access", ACCOUNT_PAGE, {
  GET: Effect.fnUntraced(function* (viewer) {
    const row = (yield* readingAccount(viewer, findAccount(viewer.session.account_id)))!
    return show(viewer, "Live access", liveAccessMain({ liveAccess: row.live_access, formToken: viewer.formToken }))
  }),
  POST: Effect.fnUntraced(function* (viewer) {
    const { account_id: id } = viewer.session
    yield* changing(
      viewer,
      "account.request_live_access",
      () => ({ kind: "account", id }),
      transitionLiveAccess(id, "request"),
    )
    return goTo(withNotice("/dashboard/live-access", "live_requested"))
  }),
})

const PAGE = 50

const whoOf = ({ actor_kind, actor_name }: ActivityRow): string => {
  if (actor_kind === "key") return `key …${actor_name}`
  return actor_name ?? words(actor_kind)
}

const activityPage = memberPage(
  "/dashboard/activity",
  { right: "account" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const { session, search } = viewer
      const after = search.get("starting_after")
      const { rows, hasMore } = yield* newestActivity(session.account_id, PAGE, after)
      const last = rows.at(-1)
      const view = {
        rows: rows.map((row) => ({
          id: row.id,
          at: row.at,
          environment: row.livemode ? ("live" as const) : ("sandbox" as const),
          who: whoOf(row),
          action: row.action,
          objectId: row.object_id,
          objectPath: pathOfObject(row.object_id, row.livemode ? "live" : "sandbox"),
          address: row.address,
          requestId: row.request_id,
          requestPath:
            row.actor_kind === "key" ? pathOfObject(row.request_id, row.livemode ? "live" : "sandbox") : null,
        })),
        pages: {
          first: after === null ? null : "/dashboard/activity",
          next: hasMore && last !== undefined ? `/dashboard/activity?starting_after=${last.id}` : null,
          csv: null,
        },
      }
      return show(viewer, "Activity", activityMain(view))
    }),
  },
)

const NO_PASSKEYS = "Passkeys need a host name: open the dashboard at localhost, or at its public address."

const me = memberPage(
  "/dashboard/me",
  { right: "see" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const { session, formToken, request, origin } = viewer
      const sessions = yield* listSessions(session.email)
      const passkeys = yield* listPasskeys(session.email)
      const view = {
        email: session.email,
        role: session.role,
        formToken,
        noPasskeys: siteOf(request, origin) === undefined ? NO_PASSKEYS : null,
        sessions: sessions.map(({ id, browser, network, method, signed_in_at, last_used_at }) => ({
          id,
          browser,
          network,
          method,
          signedInAt: signed_in_at,
          lastUsedAt: last_used_at,
          isThis: id === session.id,
        })),
        passkeys: passkeys.map(({ id, name, created_at, last_used_at }) => ({
          id,
          name,
          createdAt: created_at,
          lastUsedAt: last_used_at,
        })),
      }
      return show(viewer, "You", meMain(view))
    }),
  },
)

const endSessionPage = memberPage(
  "/dashboard/me/sessions/:id/end",
  { right: "see" },
  {
    POST: ({ session, params }) =>
      Effect.as(revokeSession(session.email, params.id!), goTo(withNotice("/dashboard/me", "session_ended"))),
  },
)

export const accountRoutes = [account, vertical, liveAccess, activityPage, me, endSessionPage]
