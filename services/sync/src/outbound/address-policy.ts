import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

export interface AddressPolicy {
  /** Returns whether the platform lists the address as part of its own network. */
  isListed(address: string): boolean
  mayConnect(address: string): boolean
}

type Network = readonly [ipaddr.IPv4 | ipaddr.IPv6, number]

/** The addresses that are assigned for the internet (RFC 4291, section 2.4). */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3')

/** Azure's platform service, which has a public address but answers only to Azure's machines. */
const platformServices: ReadonlySet<string> = new Set(['168.63.129.16'])

/**
 * Allows public addresses and the listed networks, and rejects addresses that embed another one (mapped, translated or
 * tunnelled).
 */
export function createAddressPolicy(listed: readonly string[]): AddressPolicy {
  const networks = listed.map((text) => {
    const network = parseNetwork(text)
    if (network === undefined) throw new Error('a network for sources is not a valid range')
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

export function isNetwork(text: string): boolean {
  return parseNetwork(text) !== undefined
}

export function plainAddress(address: string): string {
  return ipaddr.process(address).toString()
}

/** Parses an IPv4-mapped IPv6 address as IPv4. */
function parseAddress(text: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  if (text.includes('%') || !ipaddr.isValid(text)) return undefined
  return ipaddr.process(text)
}

/** Rejects other notations of inet_aton (octal, fewer parts), because readers disagree on them. */
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
