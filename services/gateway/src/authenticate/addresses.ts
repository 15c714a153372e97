import { type Socket, isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Range = readonly [Address, number]

/**
 * Whether a text is an address as everybody reads it. ipaddr takes what inet_aton takes as well, octal, hexadecimal and fewer parts:
 * `10.010.0.1` is 10.8.0.1 to one reader, and 10.10.0.1 to the next.
 */
function isAddress(text: string): boolean {
  return isIP(text) !== 0 && ipaddr.isValid(text)
}

/** Parses addresses and CIDR ranges, or gives undefined when one of them is neither. */
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
 * Gives a function that tells whether an address is in one of the ranges. An IPv4 address inside IPv6
 * (`::ffff:192.0.2.1`) counts as the IPv4 address. No ranges, a range or an address that cannot be read: never.
 */
export function createAddressMatcher(ranges: readonly string[]): (address: string) => boolean {
  const parsed = parseAddressRanges(ranges)
  return (address) => {
    if (parsed === undefined || !isAddress(address)) return false
    const wanted = ipaddr.process(address)
    return parsed.some((range) => contains(range, wanted))
  }
}

/** Groups of an IPv6 address that name the network: whoever has one has all addresses in it (RFC 4291 §2.5.4). */
const networkGroups = 4

/** Whom requests of an address are counted for: an IPv4 address alone, of IPv6 all of its /64. */
export function networkOf(address: string): string {
  if (!address.includes(':') || !ipaddr.IPv6.isValid(address)) return address
  const parsed = ipaddr.IPv6.parse(address)
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString()
  const groups = parsed.parts.slice(0, networkGroups).map((group) => group.toString(16))
  return `${groups.join(':')}::/64`
}

export type ForwardedForFault = 'unreadable' | 'not_trusted'

/** So many faults are told, each of another peer: whoever comes in through no proxy can write the header too. */
const mostTold = 16

/** Stands for the address of a client whose proxy writes none that can be read. It is in no range. */
const unreadableAddress = 'unknown'

/**
 * Gives a function that finds the client's address: that of the connection or, when it is a trusted proxy's, the last
 * address in X-Forwarded-For that no trusted proxy has, without the port that some write behind it. What stands to the left of it
 * anyone could have written. `unknown` where none can be read; empty where the connection is gone.
 *
 * The first time that what a proxy writes is of no use is told, of each of the first peers: its address cannot be read, or nobody said
 * that this proxy is trusted. The console, or a stranger who makes the header up, must not use up the line that is for a proxy.
 */
export function createClientAddress(
  trustedProxies: readonly string[],
  tell: (fault: ForwardedForFault, peer: string) => void = () => undefined,
): (socket: Socket, forwardedFor: string | undefined) => string {
  const isTrusted = createAddressMatcher(trustedProxies)
  const told = new Set<string>()
  const tellOnce = (fault: ForwardedForFault, peer: string): void => {
    const which = `${fault} ${peer}`
    if (told.size >= mostTold || told.has(which)) return
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
