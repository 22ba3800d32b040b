/**
 * The roles of requests and of finance teams, and their privileges. Migrations create the roles once. A dump has no roles: a database that
 * is restored without them, or without privileges, lacks these privileges.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ConfigProblem } from "../config/Config.ts"

interface RoleState {
  readonly is_member: boolean
  readonly may: boolean
}

/** Fails with ConfigProblem if requests or readers of the books have no privileges in this database. */
export const checkRoles = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [role] = yield* sql<RoleState>`
    SELECT pg_has_role(r.oid, 'MEMBER') AS is_member,
      has_table_privilege(r.oid, 'customer', 'INSERT') AND has_table_privilege(r.oid, 'charge', 'UPDATE') AND has_schema_privilege(f.oid, 'finance', 'USAGE')
        AND NOT EXISTS (
          SELECT FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relrowsecurity
            AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND r.oid = ANY (p.polroles))
        ) AS may
    FROM pg_roles r, pg_roles f WHERE r.rolname = 'billing_request' AND f.rolname = 'finance_reader'`
  if (role?.may !== true)
    return yield* new ConfigProblem({
      message:
        "The database was restored without the roles billing_request and finance_reader, or without their privileges: create both, grant them to this login, and restore it again with its privileges (docs/operating.md, Back up).",
    })
  if (!role.is_member)
    return yield* new ConfigProblem({
      message: "This login is not a member of billing_request: grant that role to it (docs/operating.md, Deploying).",
    })
})
