/** Checks that a key may call an endpoint, and that a page of another origin may read the response (decisions G7, J2, J3). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { type Problem, problem } from "../base/problem.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import type { Tenant } from "../db/tenant.ts"
import type { AccountKey, KnownKey } from "../security/key/Keys.ts"
import { type Level, reaches, type Scope } from "../security/key/scopes.ts"
import { may, RIGHTS, type Right, type Role } from "../security/role/rights.ts"
import type { Declaration } from "./Endpoint.ts"

/** The level of its scope that a call needs. */
export const levelOf = ({ method, changesNothing = false }: Pick<Declaration, "method" | "changesNothing">): Level =>
  method === "GET" || changesNothing ? "read" : "write"

export const requireScope = (key: AccountKey, scope: Scope, level: Level): Effect.Effect<void, Problem> =>
  key.type !== "restricted" || reaches(key.scopes, scope, level)
    ? Effect.void
    : Effect.fail(problem("insufficient_scope", `This restricted key lacks the scope ${scope}:${level}.`))

/** Created when needed: most calls are allowed. */
const secretOnly = Effect.suspend(() => Effect.fail(problem("secret_key_required", "Only a secret key may call this.")))

export const allow = (declaration: Declaration, key: KnownKey): Effect.Effect<void, Problem> => {
  const { access } = declaration
  const isPublishable = key.kind === "account" && key.type === "publishable"
  if (isPublishable && access !== "public" && access !== "publishable") return secretOnly
  if (access === "administrator") {
    return key.kind === "administrator"
      ? Effect.void
      : Effect.fail(problem("administrator_key_required", "This takes an administrator key."))
  }
  if (key.kind === "administrator") return secretOnly
  if (access === "public" || access === "publishable" || key.type === "secret") return Effect.void
  if (access === "secret") return secretOnly
  return access === "any" ? Effect.void : requireScope(key, access, levelOf(declaration))
}

/** The right that a member needs to call an endpoint (decision R2). */
export const rightOf = (declaration: Declaration): Right => {
  if (declaration.right !== undefined) return declaration.right
  if (declaration.access === "webhooks") return "develop"
  return levelOf(declaration) === "read" ? "see" : "operate"
}

/** Refuses a member whose role lacks a right. */
export const requireRight = (role: Role, right: Right, livemode: boolean): Effect.Effect<void, Problem> =>
  may(role, right, livemode)
    ? Effect.void
    : Effect.fail(
        problem(
          "role_insufficient",
          `Your role (${role}) does not include ${RIGHTS[right]}: ask an owner or an admin of the account.`,
        ),
      )

/** Refuses an endpoint that only accounts of another business type have (decision L1). */
export const requireVertical = Effect.fnUntraced(function* ({ vertical, path }: Declaration, tenant: Tenant) {
  if (vertical === undefined) return
  const { reading } = yield* TenantDatabase
  const found = Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`SELECT 1 FROM account WHERE id = ${tenant.account_id} AND vertical = ${vertical}`,
  )
  if ((yield* reading(tenant, found)).length > 0) return
  return yield* problem(
    "feature_unavailable",
    `${path} is only for accounts whose business type is ${vertical}: choose it with PATCH /providers/me/vertical.`,
  )
})

/** Headers that let a page of any origin read a public response. */
export const OPEN_TO_ALL: Readonly<Record<string, string>> = { "access-control-allow-origin": "*" }

/** Returns the headers that let a page of `origin` read the response; refuses an origin that is not on the publishable key's list. */
export const crossOrigin = (
  declaration: Declaration,
  key: KnownKey,
  origin: string | undefined,
): Effect.Effect<Readonly<Record<string, string>>, Problem> => {
  if (declaration.access !== "publishable" || origin === undefined) return Effect.succeed({})
  if (key.kind !== "account" || key.type !== "publishable") return Effect.succeed({})
  return key.origins.includes(origin)
    ? Effect.succeed({ "access-control-allow-origin": origin, vary: "Origin" })
    : Effect.fail(problem("origin_not_allowed", `The origin ${origin.slice(0, 200)} is not on this key's allow-list.`))
}

/** Preflight headers, by the access of the endpoint. */
const PREFLIGHT = {
  publishable: { "access-control-allow-methods": "GET", "access-control-allow-headers": "authorization" },
  public: {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "content-type, idempotency-key",
  },
} as const

/** Returns the headers of the response to a preflight request. The call itself checks the origin. */
export const preflight = (access: keyof typeof PREFLIGHT, origin: string): Readonly<Record<string, string>> => ({
  "access-control-allow-origin": origin,
  ...PREFLIGHT[access],
  "access-control-max-age": "600",
  vary: "Origin",
})
