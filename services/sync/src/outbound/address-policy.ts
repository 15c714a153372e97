import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/** Which addresses sources may be at. */
export interface AddressPolicy {
  /** Whether the platform has listed the address, as one of its own network. */
  isListed(address: string): boolean
  /** Whether a source may be there: it is listed, or anyone's on the internet. */
  mayConnect(address: string): boolean
}

type Network = readonly [ipaddr.IPv4 | ipaddr.IPv6, number]

/** All that is given to someone for use on the internet, RFC 4291 section 2.4. */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3')

/** Azure's, for its machines alone: in a range that is anyone's by its number. */
const platformServices: ReadonlySet<string> = new Set(['168.63.129.16'])

/**
 * Only addresses that belong to someone on the internet, and what the platform lists: not private, loopback, link-local and
 * metadata addresses, nor any other special range, nor one that embeds another (mapped, translated or tunnelled).
 */
export function createAddressPolicy(listed: readonly string[]): AddressPolicy {
  const networks = listed.map((text) => {
    const network = parseNetwork(text)
    if (network === undefined) throw new Error('a network that sources may be in is no range')
    return network
  })
  const isListed = (text: string): boolean => {
    const address = parseAddress(text)
    return address !== undefined && networks.some((network) => contains(network, address))
  }
  return {
    isListed,
    mayConnect: (text) => {
      const address = parseAddress(text)
      if (address === undefined) return false
      if (isListed(text)) return true
      if (address.range() !== 'unicast' || platformServices.has(address.toString())) return false
      return address instanceof ipaddr.IPv4 || address.match(globalUnicast)
    },
  }
}

/** Whether a text is an address or a range of addresses as everybody reads it. */
export function isNetwork(text: string): boolean {
  return parseNetwork(text) !== undefined
}

/** An address as it is connected to. */
export function plainAddress(address: string): string {
  return ipaddr.process(address).toString()
}

/** An IPv4 address in IPv6 clothes is that IPv4 address. A scope (`%eth0`) makes it none. */
function parseAddress(text: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  if (text.includes('%') || !ipaddr.isValid(text)) return undefined
  return ipaddr.process(text)
}

/** Four decimal numbers: what inet_aton takes besides (octal, fewer parts) is another network to the next reader. */
function parseNetwork(text: string): Network | undefined {
  if (isIP(text.split('/', 1)[0] ?? '') === 0) return undefined
  if (ipaddr.isValidCIDR(text)) return ipaddr.parseCIDR(text)
  const address = parseAddress(text)
  return address === undefined ? undefined : [address, address instanceof ipaddr.IPv4 ? 32 : 128]
}

function contains([network, bits]: Network, address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  if (address instanceof ipaddr.IPv4) return network instanceof ipaddr.IPv4 && address.match(network, bits)
  return network instanceof ipaddr.IPv6 && address.match(network, bits)
}
