/** Renders the pages of API keys: the list, and the forms that create, roll and revoke a key (decisions J1, J2, J5). */
import type { Grace, KeyStatus } from "../../security/key/apiKeys.ts"
import type { KeyType } from "../../security/key/key.ts"
import { levelsOf, SCOPE_NAMES, SCOPES, type Scopes } from "../../security/key/scopes.ts"
import { type Html, html } from "../html.ts"
import { errorSummary, type Field, fieldRow, hiddenField, type Typed, type Wrong } from "./fields.ts"
import {
  type ActionLink,
  empty,
  facts,
  notice,
  type Pages,
  pageHead,
  pager,
  status,
  table,
  when,
  words,
} from "./parts.ts"

export interface KeyView {
  readonly id: string
  readonly type: KeyType
  readonly prefix: string
  readonly last4: string
  readonly scopes: Scopes
  readonly origins: ReadonlyArray<string>
  readonly status: KeyStatus
  readonly createdAt: number
  readonly lastUsedAt: number | null
  readonly expiresAt: number | null
  /** Whether the member may roll and revoke it. */
  readonly isMine: boolean
}

/** A key without its secret part, such as `sk_test_…Xy12`. */
const keyName = ({ prefix, last4 }: Pick<KeyView, "prefix" | "last4">): Html => html`<code>${prefix}…${last4}</code>`

const MAY: Readonly<Record<KeyType, string>> = {
  secret: "everything",
  restricted: "what its scopes allow",
  publishable: "reads plans and checkout sessions in browsers",
}

/** What a key may do, in words. */
const mayText = ({ type, scopes, origins }: KeyView): Html => {
  if (type === "restricted") {
    const levels = Object.entries(scopes).map(([scope, level]) => `${words(scope)}: ${level}`)
    return html`${levels.length === 0 ? "nothing" : levels.join(", ")}`
  }
  if (type === "publishable") return html`${origins.length === 0 ? "no browser" : `browsers at ${origins.join(", ")}`}`
  return html`everything`
}

const statusText = (key: KeyView): Html =>
  key.status === "rolled" ? html`${status(key.status)} works until ${when(key.expiresAt)}` : status(key.status)

export interface KeysView {
  readonly base: string
  readonly keys: ReadonlyArray<KeyView>
  /** Whether keys that no longer work are listed too. */
  readonly isAll: boolean
  readonly canCreate: boolean
  /** Whether the page is of live and live access is not approved. */
  readonly needsLiveAccess: boolean
  readonly pages: Pages
}

const NEEDS_LIVE_ACCESS = notice(
  "warning",
  html`<p>Live keys are made once live access is approved. An owner or an admin asks for it: <a href="/dashboard/live-access">Live access</a>. Until then, use a key of the sandbox.</p>`,
)

const changeLinks =
  (base: string) =>
  ({ id, last4, isMine, status }: KeyView): Html =>
    !isMine || (status !== "active" && status !== "rolled")
      ? html`–`
      : html`${status === "active" && html`<a href="${`${base}/keys/${id}/roll`}">Roll<span class="unseen"> the key …${last4}</span></a> · `}<a href="${`${base}/keys/${id}/revoke`}">Revoke<span class="unseen"> the key …${last4}</span></a>`

export const keysMain = ({ base, keys, isAll, canCreate, needsLiveAccess, pages }: KeysView): Html => {
  const create: ActionLink = { href: `${base}/keys/new`, label: "Create a key", isMain: true }
  const list =
    keys.length === 0
      ? empty(
          "No keys yet",
          "A key lets your server call the API. A secret key stays on your server; a publishable key may stand in a page.",
          canCreate ? create : null,
        )
      : html`${table(
          "API keys",
          [
            { name: "Key", cell: keyName },
            { name: "Type", cell: ({ type }) => type },
            { name: "May do", cell: mayText },
            { name: "Status", cell: statusText },
            { name: "Last used", cell: ({ lastUsedAt }) => (lastUsedAt === null ? "never" : when(lastUsedAt)) },
            { name: "Created", cell: ({ createdAt }) => when(createdAt) },
            { name: "Change", cell: changeLinks(base) },
          ],
          keys,
        )}${pager(pages)}`
  return html`${pageHead("API keys", "What your programs use to call the API.", canCreate ? [create] : [])}${
    needsLiveAccess && NEEDS_LIVE_ACCESS
  }${list}<p class="pager">${
    isAll
      ? html`<a href="${`${base}/keys`}">Show only keys that work</a>`
      : html`<a href="${`${base}/keys?status=all`}">Show revoked and expired keys too</a>`
  }</p>`
}

export const ORIGINS_FIELD: Field = {
  name: "origins",
  label: "Allowed origins",
  kind: "textarea",
  hint: "One in each line, such as https://shop.example. Only pages of these origins may use the key.",
  maxlength: 4_000,
}

/** The name of the field with the level of a scope. */
export const scopeField = (scope: string): string => `scope.${scope}`

const SCOPE_FIELDS: ReadonlyArray<Field> = SCOPE_NAMES.map((scope) => ({
  name: scopeField(scope),
  label: SCOPES[scope].replace(/^./, (first) => first.toUpperCase()),
  kind: "select",
  isRequired: true,
  choices: levelsOf(scope).map((value) => ({ value, label: value })),
}))

const FIELDS: Readonly<Record<KeyType, ReadonlyArray<Field>>> = {
  secret: [],
  restricted: SCOPE_FIELDS,
  publishable: [ORIGINS_FIELD],
}

export interface NewKeyView {
  readonly base: string
  readonly type: KeyType
  /** The types that the member may make here. */
  readonly types: ReadonlyArray<KeyType>
  readonly typed: Typed
  readonly wrong: Wrong
  readonly refusal: string | null
  readonly formToken: string
  readonly attempt: string
}

const ABOUT: Readonly<Record<KeyType, string>> = {
  secret: "May do everything in this environment. Keep it on your server, never in a page or an app.",
  restricted: "May do only what you allow here: for a program that needs a part.",
  publishable: "Stands in your page, and reads only what browsers may read.",
}

export const newKeyMain = (view: NewKeyView): Html => {
  const { base, type, types, typed, wrong, refusal, formToken, attempt } = view
  const fields = FIELDS[type]
  return html`${pageHead("Create a key")}<nav class="tabs" aria-label="Type of the key">${types.map(
    (one) =>
      html`<a href="${`${base}/keys/new?type=${one}`}" aria-current="${one === type ? "page" : null}">${one}</a>`,
  )}</nav>
<form method="post" action="${`${base}/keys/new?type=${type}`}" class="card form">${errorSummary(fields, wrong, refusal)}${hiddenField("form_token", formToken)}${hiddenField("attempt", attempt)}<p>${ABOUT[type]}</p>
${fields.map((field) => fieldRow(field, typed, wrong))}<p class="actions"><button class="button">Create the ${type} key</button></p></form>
<p class="section"><a href="${`${base}/keys`}">Back without doing this</a></p>`
}

const GRACE_TEXTS: Readonly<Record<Grace, string>> = {
  "0": "stops now",
  "1h": "works for one more hour",
  "24h": "works for 24 more hours",
  "7d": "works for 7 more days",
}

const GRACE_FIELD: Field = {
  name: "grace",
  label: "The old key",
  kind: "radios",
  choices: Object.entries(GRACE_TEXTS).map(([value, label]) => ({ value, label })),
}

export interface ChangeKeyView {
  readonly base: string
  readonly key: KeyView
  readonly refusal: string | null
  readonly formToken: string
  readonly attempt: string
}

const keyFacts = (key: KeyView): Html =>
  facts([
    ["Key", keyName(key)],
    ["Type", `${key.type}: ${MAY[key.type]}`],
    ["Status", statusText(key)],
    ["Last used", key.lastUsedAt === null ? "never" : when(key.lastUsedAt)],
    ["Created", when(key.createdAt)],
  ])

export const rollKeyMain = ({ base, key, refusal, formToken, attempt }: ChangeKeyView): Html =>
  html`${pageHead(`Roll the key …${key.last4}`, "You get a new key that may do the same. Put it in place while the old one still works.")}${keyFacts(key)}
<form method="post" action="${`${base}/keys/${key.id}/roll`}" class="card form section">${errorSummary([], new Map(), refusal)}${hiddenField("form_token", formToken)}${hiddenField("attempt", attempt)}${fieldRow(GRACE_FIELD, new Map([["grace", ["24h"]]]), new Map())}<p class="actions"><button class="button">Roll the key</button></p></form>
<p class="section"><a href="${`${base}/keys`}">Back without doing this</a></p>`

export const revokeKeyMain = ({ base, key, refusal, formToken }: ChangeKeyView): Html =>
  html`${pageHead(`Revoke the key …${key.last4}`)}${notice(
    "warning",
    html`<p>Every request with this key is refused at once, with the error <code>key_revoked</code>. This cannot be undone. ${
      key.lastUsedAt === null ? "The key was never used." : html`It was last used ${when(key.lastUsedAt)}.`
    }</p>`,
  )}${keyFacts(key)}
<form method="post" action="${`${base}/keys/${key.id}/revoke`}" class="form section">${errorSummary([], new Map(), refusal)}${hiddenField("form_token", formToken)}<p class="actions"><button class="button danger">Revoke the key</button></p></form>
<p class="section"><a href="${`${base}/keys`}">Back without doing this</a></p>`
