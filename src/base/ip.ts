/** IP addresses, in any spelling. */
import { isIP } from "node:net"

export const HEXTETS = 8

/** The eight numbers of an IPv6 address in any spelling. */
export const hextets = (address: string): ReadonlyArray<number> => {
  const dotted = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(address)
  const hex =
    dotted === null
      ? address
      : `${dotted[1]}${((Number(dotted[2]) << 8) | Number(dotted[3])).toString(16)}:${((Number(dotted[4]) << 8) | Number(dotted[5])).toString(16)}`
  const [head = "", tail] = hex.split("::")
  const parse = (text: string) => (text === "" ? [] : text.split(":").map((part) => Number.parseInt(part, 16)))
  const [before, after] = [parse(head), tail === undefined ? [] : parse(tail)]
  return [...before, ...Array.from({ length: HEXTETS - before.length - after.length }, () => 0), ...after]
}

/** Removes the zone (network interface) of an IPv6 address: `fe80::1%eth0`. */
export const withoutZone = (address: string): string => address.replace(/%.*$/, "")

const MAPPED_V4 = 0xffff

/** The IP address in a text; IPv4 written as IPv6 (`::ffff:1.2.3.4`) returns as IPv4. Undefined if the text is no address. */
export const addressIn = (text: string): string | undefined => {
  if (isIP(text) !== 6) return isIP(text) === 4 ? text : undefined
  const address = withoutZone(text)
  const numbers = hextets(address)
  const isMapped = numbers[5] === MAPPED_V4 && numbers.slice(0, 5).every((number) => number === 0)
  if (!isMapped) return address
  const [high, low] = [numbers[6]!, numbers[7]!]
  return `${high >> 8}.${high & 0xff}.${low >> 8}.${low & 0xff}`
}

/** The smallest network that one caller owns: an IPv4 address, or the /64 of an IPv6 one (decision J6). */
export const callerNetwork = (address: string): string =>
  isIP(address) === 6
    ? `${hextets(address)
        .slice(0, 4)
        .map((number) => number.toString(16))
        .join(":")}::/64`
    : address
