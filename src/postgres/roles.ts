/**
 * The roles of requests and of finance teams, and what they may do. Migrations make them once; a dump of the database holds no roles, and where it is
 * restored without them, or without privileges, what they may do is gone with them.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ConfigProblem } from "../config/Config.ts"

interface Standing {
  readonly is_member: boolean
  readonly may: boolean
}

/** Fails with ConfigProblem where a request, or whoever reads the books, could do nothing in this database. */
export const checkRoles = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [standing] = yield* sql<Standing>`
    SELECT pg_has_role(r.oid, 'MEMBER') AS is_member,
      has_table_privilege(r.oid, 'customer', 'INSERT') AND has_table_privilege(r.oid, 'charge', 'UPDATE') AND has_schema_privilege(f.oid, 'finance', 'USAGE')
        AND NOT EXISTS (
          SELECT FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relrowsecurity
            AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND r.oid = ANY (p.polroles))
        ) AS may
    FROM pg_roles r, pg_roles f WHERE r.rolname = 'billing_request' AND f.rolname = 'finance_reader'`
  if (standing?.may !== true)
    return yield* new ConfigProblem({
      message:
        "The database was restored without the roles billing_request and finance_reader, or without their privileges: create both, grant them to this login, and restore it again with its privileges (docs/operating.md, Back up).",
    })
  if (!standing.is_member)
    return yield* new ConfigProblem({
      message: "This login is no member of billing_request: grant that to it (docs/operating.md, Deploying).",
    })
})
