import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Range = readonly [Address, number]

/** ipaddr also accepts octal, hexadecimal and shortened forms, which programs read differently. */
export function isAddress(text: string): boolean {
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
