/**
 * Where webhooks may go (decision I4): to public addresses and nowhere else, so that nobody can have us call what only we
 * can reach. Checked by address, never by name: on saving, and again of the very address that is connected to.
 */
import { BlockList, isIP } from "node:net"
import { HEXTETS, hextets, withoutZone } from "../../base/ip.ts"

const list = (ranges: ReadonlyArray<string>): BlockList => {
  const made = new BlockList()
  for (const range of ranges) {
    const [address, bits] = range.split("/")
    made.addSubnet(address!, Number(bits), isIP(address!) === 6 ? "ipv6" : "ipv4")
  }
  return made
}

/** What the IANA registry of special-purpose IPv4 addresses keeps from being a public one, and a cloud's own. */
const PRIVATE_V4 = list([
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
  // A cloud's wire server, which only guests can reach.
  "168.63.129.16/32",
])
const LOOPBACK_V4 = list(["127.0.0.0/8"])

/** Global unicast; everything else is special. */
const PUBLIC_V6 = list(["2000::/3"])
/** Protocol assignments with Teredo, documentation, 6to4. */
const PRIVATE_V6 = list(["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"])

/** The IPv4 address inside an IPv6 one: mapped (::ffff:0:0/96), compatible (::/96) or translated by NAT64 (64:ff9b::/96). */
const embeddedV4 = (address: string): string | undefined => {
  const parts = hextets(address)
  const [a, b] = parts
  const middle = parts.slice(2, 5).every((part) => part === 0)
  const mapped = a === 0 && b === 0 && middle && (parts[5] === 0xffff || parts[5] === 0)
  const translated = a === 0x64 && b === 0xff9b && middle && parts[5] === 0
  if (!mapped && !translated) return undefined
  const [high, low] = [parts[6]!, parts[7]!]
  return `${high >> 8}.${high & 0xff}.${low >> 8}.${low & 0xff}`
}

const isLoopback = (address: string): boolean => {
  if (isIP(address) === 4) return LOOPBACK_V4.check(address)
  const parts = hextets(withoutZone(address))
  if (parts.every((part, index) => part === (index === HEXTETS - 1 ? 1 : 0))) return true
  const inner = embeddedV4(withoutZone(address))
  return inner !== undefined && isLoopback(inner)
}

const isPublic = (address: string): boolean => {
  const family = isIP(address)
  if (family === 0) return false
  if (family === 4) return !PRIVATE_V4.check(address)
  const plain = withoutZone(address)
  const inner = embeddedV4(plain)
  if (inner !== undefined) return isPublic(inner)
  return PUBLIC_V6.check(plain, "ipv6") && !PRIVATE_V6.check(plain, "ipv6")
}

/** Whether a webhook may be sent to this IP address. */
export const isAllowed = (address: string, allowLoopback: boolean): boolean =>
  isPublic(address) || (allowLoopback && isLoopback(address))

/** The IP address that a URL's hostname is, in the one spelling that URLs are brought into; undefined where it is a name. */
export const literalAddress = (hostname: string): string | undefined => {
  const bare = hostname.startsWith("[") ? hostname.slice(1, -1) : hostname
  return isIP(bare) === 0 ? undefined : bare
}

/** Names that are this machine by definition (RFC 6761). */
export const isLocalName = (hostname: string): boolean => /^(.+\.)?localhost\.?$/i.test(hostname)
