/** Settings of where webhooks may go (decision I4). */
import { Effect } from "effect"
import { ConfigProblem, type Webhooks } from "./Config.ts"
import { flag, portFits, text } from "./settings.ts"

/** IPv4 or [IPv6], with or without a port. */
const DNS_SERVER = /^(\d{1,3}(\.\d{1,3}){3}|\[[0-9a-f:]+\])(:\d{1,5})?$/i

export const readWebhooks = Effect.fnUntraced(function* (
  development: boolean,
  production: boolean,
): Effect.fn.Return<Webhooks, ConfigProblem> {
  const allowLoopback = yield* flag("ALLOW_LOOPBACK_WEBHOOKS", development)
  if (allowLoopback && production)
    return yield* new ConfigProblem({ message: "ALLOW_LOOPBACK_WEBHOOKS is refused where NODE_ENV=production." })
  const dnsServers = ((yield* text("WEBHOOK_DNS_SERVERS")) ?? "").split(",").filter(Boolean)
  const strange = dnsServers.find((server) => !DNS_SERVER.test(server) || !portFits(server))
  if (strange !== undefined) {
    return yield* new ConfigProblem({
      message: `WEBHOOK_DNS_SERVERS must be IP addresses such as 9.9.9.9 or [::1]:53, not "${strange}".`,
    })
  }
  return { allowLoopback, dnsServers }
})
