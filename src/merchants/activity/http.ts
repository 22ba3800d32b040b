import * as column from "../../db/columns.ts"
import { columnsOf, type RowOf, table } from "../../db/table.ts"
import { ACTOR_KINDS } from "../../http/activity.ts"
import { bind } from "../../http/Endpoint.ts"
import { listOf } from "../../http/lists.ts"
import { commonOf } from "../../http/response.ts"
import { type Activity, activityApi } from "./api.ts"

const { immutable } = columnsOf()

const activities = table(
  "activity",
  { noun: "activity", ids: "activity" },
  {
    at: immutable(column.instant),
    actor_kind: immutable(column.oneOf(ACTOR_KINDS)),
    actor_id: immutable(column.nullable(column.text)),
    actor_name: immutable(column.nullable(column.text)),
    action: immutable(column.text),
    object_kind: immutable(column.nullable(column.text)),
    object_id: immutable(column.nullable(column.text)),
    address: immutable(column.nullable(column.text)),
    request_id: immutable(column.nullable(column.text)),
  },
)

const renderActivity = (row: RowOf<typeof activities>): typeof Activity.Type => ({
  ...commonOf("activity", { ...row, created_at: row.at }),
  actor: { kind: row.actor_kind, id: row.actor_id, name: row.actor_name },
  action: row.action,
  target: row.object_kind === null || row.object_id === null ? null : { kind: row.object_kind, id: row.object_id },
  address: row.address,
  request: row.request_id,
})

export const activityEndpoints = [
  bind(activityApi.list, { kind: "read", run: (request) => listOf(activities, request, renderActivity) }),
]
