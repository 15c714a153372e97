import { type Socket, isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Range = readonly [Address, number]

/**
 * Whether a text is an unambiguous address. ipaddr also accepts octal, hexadecimal and shortened forms: programs read `10.010.0.1` as
 * 10.8.0.1 or as 10.10.0.1.
 */
function isAddress(text: string): boolean {
  return isIP(text) !== 0 && ipaddr.isValid(text)
}

/** Parses addresses and CIDR ranges. Undefined if one is invalid. */
export function parseAddressRanges(ranges: readonly string[]): readonly Range[] | undefined {
  const parsed: Range[] = []
  for (const range of ranges) {
    const [address = ''] = range.split('/', 1)
    if (!isAddress(address)) return undefined
    if (ipaddr.isValidCIDR(range)) parsed.push(ipaddr.parseCIDR(range))
    else if (address === range && !range.includes('%')) {
      const single = ipaddr.parse(range)
      parsed.push([single, single.kind() === 'ipv4' ? 32 : 128])
    } else return undefined
  }
  return parsed
}

function contains([network, bits]: Range, address: Address): boolean {
  if (address instanceof ipaddr.IPv4) return network instanceof ipaddr.IPv4 && address.match(network, bits)
  return network instanceof ipaddr.IPv6 && address.match(network, bits)
}

/**
 * Returns a function that checks whether an address is in one of the ranges. An IPv4-mapped address (`::ffff:192.0.2.1`) counts as
 * IPv4. It returns false for invalid addresses, and always without ranges or with an invalid one.
 */
export function createAddressMatcher(ranges: readonly string[]): (address: string) => boolean {
  const parsed = parseAddressRanges(ranges)
  return (address) => {
    if (parsed === undefined || !isAddress(address)) return false
    const wanted = ipaddr.process(address)
    return parsed.some((range) => contains(range, wanted))
  }
}

/** Groups of an IPv6 address that name the network. A client owns all addresses of it (RFC 4291, section 2.5.4). */
const networkGroups = 4

/** Returns the network of an address for counting: the IPv4 address, or the IPv6 /64. */
export function networkOf(address: string): string {
  if (!address.includes(':') || !ipaddr.IPv6.isValid(address)) return address
  const parsed = ipaddr.IPv6.parse(address)
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString()
  const groups = parsed.parts.slice(0, networkGroups).map((group) => group.toString(16))
  return `${groups.join(':')}::/64`
}

export type ForwardedForFault = 'unreadable' | 'not_trusted'

/** The most logged peers. Clients without a proxy can write the header too. */
const maxLoggedPeers = 16

/** The address of a client whose proxy writes an invalid one. It is in no range. */
const unreadableAddress = 'unknown'

/**
 * Returns a function that finds the client's address: the connection's, or behind a trusted proxy the last address in
 * X-Forwarded-For that is not a trusted proxy. `unknown` if it is invalid, empty if the connection is closed.
 *
 * Logs once for each of the first peers whose header is invalid or not trusted.
 */
export function createClientAddress(
  trustedProxies: readonly string[],
  tell: (fault: ForwardedForFault, peer: string) => void = () => undefined,
): (socket: Socket, forwardedFor: string | undefined) => string {
  const isTrusted = createAddressMatcher(trustedProxies)
  const told = new Set<string>()
  const tellOnce = (fault: ForwardedForFault, peer: string): void => {
    const which = `${fault} ${peer}`
    if (told.size >= maxLoggedPeers || told.has(which)) return
    told.add(which)
    tell(fault, peer)
  }
  return (socket, forwardedFor) => {
    const peer = plain(socket.remoteAddress ?? '')
    if (forwardedFor === undefined || forwardedFor.trim() === '') return peer
    if (!isTrusted(peer)) {
      tellOnce('not_trusted', peer)
      return peer
    }
    const hops = forwardedFor.split(',').map((hop) => withoutPort(hop.trim()))
    for (const hop of hops.toReversed()) {
      if (!isAddress(hop)) {
        tellOnce('unreadable', peer)
        return unreadableAddress
      }
      if (!isTrusted(hop)) return ipaddr.process(hop).toString()
    }
    return peer
  }
}

const withPort = /^(?:([\d.]+)|\[([\da-f:.]+)\])(?::\d{1,5})?$/i

function withoutPort(hop: string): string {
  const [, v4, v6] = withPort.exec(hop) ?? []
  return v4 ?? v6 ?? hop
}

function plain(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address
}
