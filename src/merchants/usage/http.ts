import { bind } from "../../http/Endpoint.ts"
import { usageApi } from "./api.ts"
import { currentUsage, usageHistory } from "./usage.ts"

export const usageEndpoints = [
  bind(usageApi.get, { kind: "read", run: (request) => currentUsage(request) }),
  bind(usageApi.history, { kind: "read", run: (request) => usageHistory(request, request.query) }),
]
