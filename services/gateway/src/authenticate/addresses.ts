import type { Socket } from 'node:net'
import { createAddressMatcher, isAddress } from '@postern/service-kit/access'
import ipaddr from 'ipaddr.js'

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

/** Any client can send the header. */
const maxLoggedPeers = 16

/** An address that is in no range. */
const unreadableAddress = 'unknown'

/**
 * Finds the client's address: the last one in X-Forwarded-For that is not a trusted proxy, or the connection's.
 * `unknown` if invalid, empty if the connection is closed.
 */
export function createClientAddress(
  trustedProxies: readonly string[],
  onFault: (fault: ForwardedForFault, peer: string) => void = () => undefined,
): (socket: Socket, forwardedFor: string | undefined) => string {
  const isTrusted = createAddressMatcher(trustedProxies)
  const reported = new Set<string>()
  const reportOnce = (fault: ForwardedForFault, peer: string): void => {
    const which = `${fault} ${peer}`
    if (reported.size >= maxLoggedPeers || reported.has(which)) return
    reported.add(which)
    onFault(fault, peer)
  }
  return (socket, forwardedFor) => {
    const peer = toPlainAddress(socket.remoteAddress ?? '')
    if (forwardedFor === undefined || forwardedFor.trim() === '') return peer
    if (!isTrusted(peer)) {
      reportOnce('not_trusted', peer)
      return peer
    }
    const hops = forwardedFor.split(',').map((hop) => withoutPort(hop.trim()))
    for (const hop of hops.toReversed()) {
      if (!isAddress(hop)) {
        reportOnce('unreadable', peer)
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

function toPlainAddress(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address
}
