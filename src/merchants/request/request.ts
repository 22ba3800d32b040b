/** A logged API request: its table, which src/http/RequestLog.ts writes, and its rendering for the API. */
import * as column from "../../db/columns.ts"
import { columnsOf, type RowOf, table } from "../../db/table.ts"
import { commonOf } from "../../http/response.ts"
import type { LoggedRequest } from "./api.ts"

const { immutable } = columnsOf()

export const requests = table(
  "api_request",
  { noun: "request", ids: "request" },
  {
    at: immutable(column.instant),
    method: immutable(column.text),
    path: immutable(column.text),
    status: immutable(column.smallint),
    error_code: immutable(column.nullable(column.text)),
    key_id: immutable(column.text),
    key_last4: immutable(column.text),
    duration_us: immutable(column.integer),
    is_replay: immutable(column.flag),
  },
)

export const renderRequest = (row: RowOf<typeof requests>): typeof LoggedRequest.Type => ({
  ...commonOf("request", { ...row, created_at: row.at }),
  method: row.method,
  path: row.path,
  status: row.status,
  error_code: row.error_code,
  key: row.key_id,
  key_last4: row.key_last4,
  duration_ms: row.duration_us / 1_000,
  idempotent_replay: row.is_replay,
})
