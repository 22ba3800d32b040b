/** Reads the settings of the allowed destinations of webhooks (decision I4). */
import { isIPv4, isIPv6 } from "node:net"
import { Effect } from "effect"
import { ConfigProblem, type Webhooks } from "./Config.ts"
import { flag, MAX_PORT, text } from "./settings.ts"

/** IPv4 or [IPv6], with or without a port. */
const isDnsServer = (server: string): boolean => {
  const [, v4, v6, port = "53"] = /^(?:([\d.]+)|\[([^\]]+)\])(?::(\d{1,5}))?$/.exec(server) ?? []
  return (isIPv4(v4 ?? "") || isIPv6(v6 ?? "")) && Number(port) >= 1 && Number(port) <= MAX_PORT
}

export const readWebhooks = Effect.fnUntraced(function* (
  development: boolean,
  production: boolean,
): Effect.fn.Return<Webhooks, ConfigProblem> {
  const allowLoopback = yield* flag("ALLOW_LOOPBACK_WEBHOOKS", development)
  if (allowLoopback && production)
    return yield* new ConfigProblem({ message: "ALLOW_LOOPBACK_WEBHOOKS is refused when NODE_ENV=production." })
  const dnsServers = ((yield* text("WEBHOOK_DNS_SERVERS")) ?? "")
    .split(",")
    .map((server) => server.trim())
    .filter(Boolean)
  const invalid = dnsServers.find((server) => !isDnsServer(server))
  if (invalid !== undefined) {
    return yield* new ConfigProblem({
      message: `WEBHOOK_DNS_SERVERS must be IP addresses such as 9.9.9.9 or [::1]:53, not "${invalid}".`,
    })
  }
  return { allowLoopback, dnsServers }
})
