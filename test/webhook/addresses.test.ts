/** Tests that webhooks go to public addresses only, for any URL and any name (decision I4). */
import { describe, expect, it } from "vitest"
import { isAllowed } from "../../src/outbound/webhook/addresses.ts"
import { useNameServer } from "../support/dns.ts"
import { useOwnInstance } from "../support/instance.ts"
import { useReceiver } from "../support/receiver.ts"
import { data, eventually, refusal } from "../support/story.ts"

const names = useNameServer()
const receiver = useReceiver()
// Sandbox endpoints on this machine are not allowed here: it represents every forbidden address.
const { api, live } = useOwnInstance(() => ({ WEBHOOK_DNS_SERVERS: names.address(), ALLOW_LOOPBACK_WEBHOOKS: "false" }))

const add = (url: string, caller = api) => caller.post("/webhook-endpoints", { url, enabled_events: ["*"] })
const refused = [400, "parameter_invalid", "url"]

describe("an address", () => {
  it.each([
    "https://shop.example/hook\n",
    " https://shop.example/hook",
    "https://shop.example/a b",
    "https://shop.example/a\tb",
    "https:shop.example/hook",
    "https:///shop.example/hook",
    "https:\\\\shop.example\\hook",
    "ftp://shop.example/hook",
    "https://shop.example:0/hook",
  ])("with more than one reading is refused: %j", async (url) => {
    expect(refusal(await add(url))).toEqual(refused)
  })

  it.each([
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:10.0.0.1",
    "::10.0.0.1",
    "::7f00:1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "not an address",
  ])("%s is not public", (address) => expect(isAllowed(address, false)).toBe(false))

  it.each([
    "1.1.1.1",
    "93.184.215.14",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "64:ff9b::101:101",
    "::ffff:1.1.1.1",
  ])("%s is public", (address) => expect(isAllowed(address, false)).toBe(true))

  it.each(["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "0:0:0:0:0:0:0:1"])("%s is this machine", (address) => {
    expect(isAllowed(address, true)).toBe(true)
  })

  it.each(["10.0.0.1", "169.254.169.254", "0.0.0.0", "::", "fe80::1", "::ffff:10.0.0.1"])(
    "%s is still refused if this machine is allowed",
    (address) => expect(isAllowed(address, true)).toBe(false),
  )
})

describe("saving an endpoint", () => {
  it.each([
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "localhost",
    "LOCALHOST.",
    "shop.localhost",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[0:0:0:0:0:ffff:7f00:1]",
    "[64:ff9b::a00:1]",
    "[fe80::1]",
    "169.254.169.254",
    "①②⑦.⓪.⓪.①",
  ])("refuses %s in every spelling, in both environments", async (host) => {
    for (const [caller, scheme] of [
      [api, "http"],
      [api, "https"],
      [live, "https"],
    ] as const)
      expect(refusal(await add(`${scheme}://${host}:8443/hook`, caller)), scheme).toEqual(refused)
  })

  it("refuses names that resolve to private addresses, alone or beside public ones", async () => {
    names.set("inside.example", ["10.0.0.7"])
    names.set("inside-six.example", ["fd00::7"])
    names.set("both.example", ["93.184.215.14", "192.168.0.7"])
    names.set("outside.example", ["93.184.215.14"])
    for (const name of ["inside.example", "inside-six.example", "both.example"])
      expect(refusal(await add(`https://${name}/hook`, live)), name).toEqual(refused)
    const { id } = data(await add("https://outside.example/hook", live), 201)
    expect(refusal(await live.patch(`/webhook-endpoints/${id}`, { url: "https://inside.example/" }))).toEqual(refused)
    expect(data(await live.get(`/webhook-endpoints/${id}`)).url).toBe("https://outside.example/hook")
  })

  it("accepts a name that does not resolve yet", async () => {
    data(await add("https://soon.example/hook"), 201)
  })
})

describe("sending", () => {
  const failureOf = async (event: string, endpoint: string) => {
    const delivery = await eventually(async () => {
      const all = data(await api.get(`/events/${event}/deliveries`))
      return all.find((one: Record<string, unknown>) => one.webhook_endpoint === endpoint && one.attempt === 1)
    })
    return [delivery.status, delivery.response_status, delivery.failure_reason]
  }

  it("checks the address at each connection: a name may have changed since it was saved", async () => {
    // Public while it is saved (two questions: A and AAAA), this machine afterwards.
    names.set("rebinding.example", (asked) => (asked <= 2 ? ["93.184.215.14"] : ["127.0.0.1"]))
    const { id } = data(await add(`http://rebinding.example:${receiver.port()}/hook`), 201)
    const event = data(await api.post("/test/events/trigger", { type: "charge.failed" }), 201)
    expect(await failureOf(event.id, id)).toEqual(["pending", null, "address_not_allowed"])
    expect(data(await api.post(`/webhook-endpoints/${id}/test`))).toMatchObject({
      response_status: null,
      delivered: false,
    })
    expect(receiver.at("/hook")).toEqual([])
  })

  it("reports a name that does not resolve", async () => {
    const { id } = data(await add("https://nowhere.example/hook"), 201)
    const event = data(await api.post("/test/events/trigger", { type: "charge.failed" }), 201)
    expect(await failureOf(event.id, id)).toEqual(["pending", null, "name_not_resolved"])
  })
})
