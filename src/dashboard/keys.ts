/** The pages of API keys (decisions J1, J2, J5, R5). A key is shown once, on the page that follows the form which made it. */
import { Effect, Option, Struct } from "effect"
import { isId } from "../base/ids.ts"
import { isProblem, type Problem, problem } from "../base/problem.ts"
import { currentTime } from "../base/wallClock.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { requireRight } from "../http/access.ts"
import { isAttempt, newAttempt } from "../merchants/member/tokens.ts"
import { NOTHING_WRONG, type Wrong } from "../pages/dashboard/fields.ts"
import {
  type KeyView,
  keysMain,
  newKeyMain,
  ORIGINS_FIELD,
  revokeKeyMain,
  rollKeyMain,
  scopeField,
} from "../pages/dashboard/keys.ts"
import { secretMain } from "../pages/dashboard/secret.ts"
import {
  type Allowed,
  addKey,
  GRACES_MS,
  type Grace,
  getKey,
  type KeyRow,
  type NewKey,
  newestKeys,
  readOrigin,
  revokeKey,
  rollKey,
  statusOf,
} from "../security/key/apiKeys.ts"
import { KEY_TYPES, type KeyType } from "../security/key/key.ts"
import { levelsOf, SCOPE_NAMES } from "../security/key/scopes.ts"
import { may } from "../security/role/rights.ts"
import { changing } from "./account.ts"
import { type Form, formOf } from "./forms.ts"
import { goTo, memberPage, show, type Viewer, withNotice } from "./pages.ts"

const SHOWN = 25
/** Origins of a publishable key: pages of a few shops. */
const MAX_ORIGINS = 20

/** Whether the member may make, roll and revoke keys of this type here. */
const manages = ({ session, tenant: { livemode } }: Viewer, type: KeyType): boolean =>
  !livemode || type !== "secret" || may(session.role, "secrets", livemode)

const needsLiveAccess = ({ session, tenant }: Viewer): boolean => tenant.livemode && session.live_access !== "approved"

const viewOf =
  (viewer: Viewer) =>
  (row: KeyRow): KeyView => ({
    id: row.id,
    type: row.type,
    prefix: row.prefix,
    last4: row.last4,
    scopes: row.scopes,
    origins: row.origins,
    status: statusOf(row, currentTime()),
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at,
    expiresAt: row.expires_at,
    isMine: manages(viewer, row.type),
  })

const PAGE = { right: "develop" } as const
/** Making or rolling a live key needs a sign-in of the last 15 minutes. */
const MAKING_PAGE = { right: "develop", isSensitive: ({ tenant }: Viewer) => tenant.livemode } as const

const list = memberPage("/dashboard/:environment/keys", PAGE, {
  GET: Effect.fnUntraced(function* (viewer) {
    const { tenant, base, search } = viewer
    const { reading } = yield* TenantDatabase
    const isAll = search.get("status") === "all"
    const cursor = search.get("starting_after")
    const after = cursor !== null && isId("key", cursor) ? cursor : null
    const { rows, hasMore } = yield* reading(tenant, newestKeys(tenant, { limit: SHOWN, after, onlyWorking: !isAll }))
    const path = isAll ? `${base}/keys?status=all` : `${base}/keys?status=working`
    const view = {
      base,
      keys: rows.map(viewOf(viewer)),
      isAll,
      canCreate: !needsLiveAccess(viewer),
      needsLiveAccess: needsLiveAccess(viewer),
      pages: {
        first: after === null ? null : path,
        next: hasMore ? `${path}&starting_after=${rows.at(-1)!.id}` : null,
        csv: null,
      },
    }
    return show(viewer, "API keys", keysMain(view))
  }),
})

const typeIn = (viewer: Viewer): KeyType => {
  const types = KEY_TYPES.filter((type) => manages(viewer, type))
  const asked = viewer.search.get("type")
  return types.find((type) => type === asked) ?? types[0]!
}

interface Refused {
  readonly wrong?: Wrong
  readonly refusal?: string | null
}

const showNew = (viewer: Viewer, form: Form, { wrong = NOTHING_WRONG, refusal = null }: Refused = {}, status = 200) => {
  const { base, formToken } = viewer
  const view = {
    base,
    type: typeIn(viewer),
    types: KEY_TYPES.filter((type) => manages(viewer, type)),
    typed: form.typed,
    wrong,
    refusal,
    formToken,
    attempt: newAttempt(),
  }
  return show(viewer, "Create a key", newKeyMain(view), status)
}

/** Reads what a key of this type may do from the form. */
const readAllowed = (type: KeyType, form: Form): { readonly allowed: Allowed } | { readonly wrong: Wrong } => {
  if (type === "restricted") {
    const levels = SCOPE_NAMES.flatMap((scope) => {
      const level = levelsOf(scope).find((one) => one === form.get(scopeField(scope)))
      return level === undefined || level === "none" ? [] : [[scope, level] as const]
    })
    return levels.length === 0
      ? { wrong: new Map([[scopeField(SCOPE_NAMES[0]!), "Choose a level for at least one of these."]]) }
      : { allowed: { scopes: Object.fromEntries(levels) } }
  }
  if (type !== "publishable") return { allowed: {} }
  const lines = form.get(ORIGINS_FIELD.name).split(/\s+/).filter(Boolean)
  const origins = lines.map(readOrigin)
  const bad = origins.findIndex(Option.isNone)
  if (bad !== -1)
    return { wrong: new Map([["origins", `${lines[bad]!.slice(0, 100)} is no origin such as https://shop.example.`]]) }
  if (lines.length > MAX_ORIGINS) return { wrong: new Map([["origins", `Type at most ${MAX_ORIGINS} origins.`]]) }
  return { allowed: { origins: [...new Set(lines.map((line) => new URL(line).origin))] } }
}

const showKey = (viewer: Viewer, { key, id }: NewKey, about: string) =>
  show(
    viewer,
    "Your new key",
    secretMain({
      title: "Your new key",
      secret: key,
      about,
      facts: [["ID", id]],
      backTo: `${viewer.base}/keys`,
      backText: "I have copied it",
    }),
  )

/** The token of a form: a form that is sent again, by a reload for example, makes no other key. */
const attemptIn = (form: Form): Effect.Effect<string, Problem> => {
  const attempt = form.get("attempt")
  return isAttempt(attempt) ? Effect.succeed(attempt) : Effect.fail(problem("form_invalid", "Load the page again."))
}

const USE = "Send it in the header of each request: Authorization: Bearer, a space, and the key."

const objectOf = ({ id }: { readonly id: string }) => ({ kind: "key", id })

const create = memberPage("/dashboard/:environment/keys/new", MAKING_PAGE, {
  GET: (viewer) => Effect.succeed(showNew(viewer, formOf([]))),
  POST: Effect.fnUntraced(function* (viewer, form) {
    const { tenant, session, search } = viewer
    const type = KEY_TYPES.find((one) => one === search.get("type")) ?? "secret"
    if (!manages(viewer, type)) yield* requireRight(session.role, "secrets", tenant.livemode)
    const read = readAllowed(type, form)
    if ("wrong" in read) return showNew(viewer, form, read, 400)
    const adding = addKey(tenant, type, read.allowed, yield* attemptIn(form))
    return yield* changing(viewer, "key.create", objectOf, adding, tenant).pipe(
      Effect.map((made) => showKey(viewer, made, USE)),
      Effect.catchIf(isProblem, ({ message, status }) =>
        Effect.succeed(showNew(viewer, form, { refusal: message }, status)),
      ),
    )
  }),
})

/** Reads the key of the page; refuses a member who may not change it. */
const keyOf = Effect.fnUntraced(function* (viewer: Viewer) {
  const { tenant, params, session } = viewer
  const { reading } = yield* TenantDatabase
  const row = yield* reading(tenant, getKey({ ...tenant, id: params.id! }))
  if (!manages(viewer, row.type)) yield* requireRight(session.role, "secrets", tenant.livemode)
  return row
})

const changeView = (viewer: Viewer, row: KeyRow, refusal: string | null = null) => ({
  base: viewer.base,
  key: viewOf(viewer)(row),
  refusal,
  formToken: viewer.formToken,
  attempt: newAttempt(),
})

const showRoll = (viewer: Viewer, row: KeyRow, refusal: string | null = null, status = 200) =>
  show(viewer, `Roll the key …${row.last4}`, rollKeyMain(changeView(viewer, row, refusal)), status)

const GRACES = Struct.keys(GRACES_MS)

const roll = memberPage("/dashboard/:environment/keys/:id/roll", MAKING_PAGE, {
  GET: (viewer) => Effect.map(keyOf(viewer), (row) => showRoll(viewer, row)),
  POST: Effect.fnUntraced(function* (viewer, form) {
    const { tenant } = viewer
    const row = yield* keyOf(viewer)
    const grace: Grace | undefined = GRACES.find((one) => one === form.get("grace"))
    if (grace === undefined) return showRoll(viewer, row, "Choose how long the old key works.", 400)
    const rolling = rollKey({ ...tenant, id: row.id }, grace, yield* attemptIn(form))
    return yield* changing(viewer, "key.roll", objectOf, rolling, tenant).pipe(
      Effect.map((made) => showKey(viewer, made, `It replaces the key …${row.last4}, and may do the same.`)),
      Effect.catchIf(isProblem, ({ message, status }) => Effect.succeed(showRoll(viewer, row, message, status))),
    )
  }),
})

const revoke = memberPage("/dashboard/:environment/keys/:id/revoke", PAGE, {
  GET: (viewer) =>
    Effect.map(keyOf(viewer), (row) =>
      show(viewer, `Revoke the key …${row.last4}`, revokeKeyMain(changeView(viewer, row))),
    ),
  POST: Effect.fnUntraced(function* (viewer) {
    const { tenant, base } = viewer
    const row = yield* keyOf(viewer)
    yield* changing(viewer, "key.revoke", objectOf, revokeKey({ ...tenant, id: row.id }), tenant)
    return goTo(withNotice(`${base}/keys`, "key_revoked"))
  }),
})

export const keyRoutes = [list, create, roll, revoke]
