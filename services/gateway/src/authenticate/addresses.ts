import { type Socket, isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Range = readonly [Address, number]

/** ipaddr also accepts octal, hexadecimal and shortened forms, which programs read differently. */
function isAddress(text: string): boolean {
  return isIP(text) !== 0 && ipaddr.isValid(text)
}

/** Returns undefined if one is invalid. */
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
 * An IPv4-mapped address counts as IPv4. The check is false for invalid addresses, without ranges, or with an invalid
 * one.
 */
export function createAddressMatcher(ranges: readonly string[]): (address: string) => boolean {
  const parsed = parseAddressRanges(ranges)
  return (address) => {
    if (parsed === undefined || !isAddress(address)) return false
    const wanted = ipaddr.process(address)
    return parsed.some((range) => contains(range, wanted))
  }
}

/** A client owns a whole IPv6 network (RFC 4291, section 2.5.4). */
const networkGroups = 4

/** Returns the IPv4 address, or the IPv6 /64. */
export function networkOf(address: string): string {
  if (!address.includes(':') || !ipaddr.IPv6.isValid(address)) return address
  const parsed = ipaddr.IPv6.parse(address)
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString()
  const groups = parsed.parts.slice(0, networkGroups).map((group) => group.toString(16))
  return `${groups.join(':')}::/64`
}

export type ForwardedForFault = 'unreadable' | 'not_trusted'

/** Clients without a proxy can write the header too. */
const maxLoggedPeers = 16

/** An address that is in no range. */
const unreadableAddress = 'unknown'

/**
 * Finds the client's address: the last one in X-Forwarded-For that is not a trusted proxy, or the connection's.
 * `unknown` if invalid, empty if the connection is closed.
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
