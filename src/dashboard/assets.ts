/** Serves the dashboard's style and script. Their paths name their content, so that browsers keep them for a year. */
import { Effect } from "effect"
import { problem } from "../base/problem.ts"
import { publicRoute } from "../http/publicRoutes.ts"
import { ASSETS } from "../pages/dashboard/assets.ts"

const KEPT = { "cache-control": "public, max-age=31536000, immutable" }

const byPath = new Map(ASSETS.map((asset) => [asset.path, asset]))

export const assetRoutes = [
  publicRoute("/dashboard/assets/:name", /^\/dashboard\/assets\/([A-Za-z0-9._-]+)$/, {
    GET: ({ parts: [name] }) => {
      const asset = byPath.get(`/dashboard/assets/${name}`)
      return asset === undefined
        ? Effect.fail(problem("route_missing", "There is no such file."))
        : Effect.succeed({ contentType: asset.contentType, body: asset.body, headers: KEPT })
    },
  }),
]
