/** Usage on the wire. */
import { Schema } from "effect"
import { declare } from "../http/Endpoint.ts"
import { pageFields } from "../http/lists.ts"
import { instant } from "../http/parameters.ts"

const common = { method: "GET", access: "usage", status: 200, answers: "usage" } as const

export const usageApi = {
  get: declare({ ...common, path: "/usage", summary: "Get this month's usage" }),
  history: declare({
    ...common,
    path: "/usage/history",
    summary: "List the usage of past months",
    query: Schema.Struct({ limit: pageFields.limit, starting_after: Schema.optionalKey(instant) }),
    list: true,
  }),
}
