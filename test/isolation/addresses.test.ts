/** Tests the address that a request is counted for, and which proxies are trusted (decisions A2, J6). */
import type { IncomingMessage } from "node:http"
import { Effect } from "effect"
import * as fc from "fast-check"
import { describe, expect, it } from "vitest"
import { readConfig } from "../../src/config/readConfig.ts"
import { addressOf, isFromTrustedProxy, isSecure } from "../../src/http/transport.ts"

const NETWORKS = "10.0.0.0/8,fd00::/8,192.0.2.7"

const transportOf = (trustProxy: string) =>
  Effect.runSync(readConfig({ TRUST_PROXY: trustProxy }, { development: false })).transport

/** A request as Node gives it, with several lines of a header already joined. */
const requestBy = (peer: string | undefined, headers: Readonly<Record<string, string>> = {}) =>
  ({ socket: { remoteAddress: peer }, headers }) as unknown as IncomingMessage

const seen = (trustProxy: string, peer: string | undefined, forwarded?: string) =>
  addressOf(requestBy(peer, forwarded === undefined ? {} : { "x-forwarded-for": forwarded }), transportOf(trustProxy))

describe("the address of a request", () => {
  it.each([
    ["198.51.100.1", "198.51.100.1"],
    ["::ffff:198.51.100.1", "198.51.100.1"],
    ["::FFFF:c633:6401", "198.51.100.1"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:DB8:1:2::6", "2001:db8:1:2::/64"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    [undefined, ""],
  ])("%s is %s", (peer, name) => {
    expect(seen("false", peer)).toBe(name)
  })

  it.each([
    // No peer is trusted.
    ["false", "10.0.0.1", "203.0.113.9", "10.0.0.1"],
    // Every peer is a proxy, and the last entry is the address that it saw.
    ["true", "10.0.0.1", "203.0.113.9", "203.0.113.9"],
    ["true", "10.0.0.1", "1.1.1.1, 203.0.113.9", "203.0.113.9"],
    ["true", "10.0.0.1", "1.1.1.1,2001:db8:1:2:3::9", "2001:db8:1:2::/64"],
    ["true", "10.0.0.1", "::ffff:203.0.113.9", "203.0.113.9"],
    ["true", "10.0.0.1", undefined, "10.0.0.1"],
    ["true", "10.0.0.1", "203.0.113.9, unknown", "10.0.0.1"],
    ["true", "10.0.0.1", "203.0.113.9,", "10.0.0.1"],
    // A chain of proxies in trusted networks: the last entry outside of them.
    [NETWORKS, "10.0.0.1", "203.0.113.9", "203.0.113.9"],
    [NETWORKS, "::ffff:10.0.0.1", "203.0.113.9", "203.0.113.9"],
    [NETWORKS, "fd00::1", "203.0.113.9, fd12::1, ::ffff:10.1.1.1, 192.0.2.7", "203.0.113.9"],
    [NETWORKS, "10.0.0.1", "1.1.1.1, 203.0.113.9, 10.1.1.1", "203.0.113.9"],
    [NETWORKS, "10.0.0.1", "nonsense, 203.0.113.9, 10.1.1.1", "203.0.113.9"],
    [NETWORKS, "10.0.0.1", "203.0.113.9, nonsense, 10.1.1.1", "10.0.0.1"],
    // All entries are trusted: the first one.
    [NETWORKS, "10.0.0.1", "10.3.3.3, 10.2.2.2", "10.3.3.3"],
    [NETWORKS, "10.0.0.1", undefined, "10.0.0.1"],
    // A peer outside of them is not trusted.
    [NETWORKS, "198.51.100.1", "203.0.113.9", "198.51.100.1"],
    [NETWORKS, "192.0.2.8", "203.0.113.9", "192.0.2.8"],
    [NETWORKS, undefined, "203.0.113.9", ""],
  ])("with TRUST_PROXY=%s, from %s with X-Forwarded-For: %s, is %s", (trustProxy, peer, forwarded, name) => {
    expect(seen(trustProxy, peer, forwarded)).toBe(name)
  })

  it("is never an entry that the caller sent before the proxies' own entries", () => {
    const transports = [transportOf("true"), transportOf(NETWORKS)]
    const address = fc.oneof(fc.ipV4(), fc.ipV6())
    const outside = address.filter((text) => !isFromTrustedProxy(requestBy(text), transports[1]!))
    fc.assert(
      fc.property(fc.string(), outside, (made, caller) => {
        for (const transport of transports) {
          const by = (forwarded: string) =>
            addressOf(requestBy("10.0.0.1", { "x-forwarded-for": forwarded }), transport)
          expect(by(`${made},${caller}`)).toBe(by(caller))
          expect(by(caller)).toBe(addressOf(requestBy(caller), transport))
        }
      }),
    )
  })

  it("is the same for all of an IPv6 /64, in any spelling", () => {
    const group = fc.integer({ min: 0, max: 0xffff })
    const groups = fc.array(group, { minLength: 4, maxLength: 4 })
    const write = (numbers: ReadonlyArray<number>) => numbers.map((number) => number.toString(16)).join(":")
    const transport = transportOf("false")
    const nameOf = (address: string) => addressOf(requestBy(address), transport)
    fc.assert(
      fc.property(groups, groups, groups, (network, one, other) => {
        fc.pre(network.some((number) => number !== 0))
        const written = `${write(network)}:${write(one)}`
        expect(nameOf(written)).toBe(`${write(network)}::/64`)
        expect(nameOf(`${write(network)}:${write(other)}`)).toBe(nameOf(written))
        expect(nameOf(new URL(`http://[${written}]`).hostname.slice(1, -1).toUpperCase())).toBe(nameOf(written))
        expect(nameOf(`${write(network)}:${write(one.slice(0, 2))}:1.2.3.4`)).toBe(nameOf(written))
      }),
    )
  })
})

describe("HTTPS", () => {
  it.each([
    ["true", "198.51.100.1", "https", true],
    ["true", "198.51.100.1", "HTTPS", true],
    ["true", "198.51.100.1", "http, https", true],
    // The caller's value, and then the proxy's.
    ["true", "198.51.100.1", "https, http", false],
    ["true", "198.51.100.1", "https,", false],
    ["true", "198.51.100.1", undefined, false],
    [NETWORKS, "10.0.0.1", "https", true],
    [NETWORKS, "198.51.100.1", "https", false],
    ["false", "10.0.0.1", "https", false],
  ])("with TRUST_PROXY=%s, from %s with X-Forwarded-Proto: %s: %s", (trustProxy, peer, proto, secure) => {
    const headers: Record<string, string> = proto === undefined ? {} : { "x-forwarded-proto": proto }
    expect(isSecure(requestBy(peer, headers), transportOf(trustProxy))).toBe(secure)
  })
})
