/**
 * Decides to which addresses webhooks may be sent (decision I4): public ones only, so that merchants cannot make us call internal
 * services (SSRF). The check is by address, never by name: when an endpoint is saved, and again for each connection.
 */
import { BlockList, isIP } from "node:net"
import { HEXTETS, hextets, withoutZone } from "../../base/ip.ts"

const list = (ranges: ReadonlyArray<string>): BlockList => {
  const blockList = new BlockList()
  for (const range of ranges) {
    const [address, bits] = range.split("/")
    blockList.addSubnet(address!, Number(bits), isIP(address!) === 6 ? "ipv6" : "ipv4")
  }
  return blockList
}

/** Non-public ranges of the IANA registry of special-purpose IPv4 addresses, and one of a cloud. */
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
  // A cloud's wire server, reachable only from its virtual machines.
  "168.63.129.16/32",
])
const LOOPBACK_V4 = list(["127.0.0.0/8"])

/** Global unicast. All other ranges are special. */
const PUBLIC_V6 = list(["2000::/3"])
/** Protocol assignments (with Teredo), documentation, 6to4. */
const PRIVATE_V6 = list(["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"])

/** Returns the IPv4 address inside an IPv6 one: mapped (::ffff:0:0/96), compatible (::/96) or translated by NAT64 (64:ff9b::/96). */
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

/** Returns the IP address in a URL's hostname, in normalised form; undefined if the hostname is a name. */
export const literalAddress = (hostname: string): string | undefined => {
  const bare = hostname.startsWith("[") ? hostname.slice(1, -1) : hostname
  return isIP(bare) === 0 ? undefined : bare
}

/** Whether a name means this machine by definition (RFC 6761). */
export const isLocalName = (hostname: string): boolean => /^(.+\.)?localhost\.?$/i.test(hostname)
