import ipaddr from 'ipaddr.js'

type Range = readonly [ipaddr.IPv4 | ipaddr.IPv6, number]

/**
 * Returns an address range with its prefix, host bits cleared, IPv4-mapped IPv6 as IPv4. Undefined for anything else,
 * including `::a.b.c.d` (RFC 4291 §2.5.5.1), which PostgreSQL rewrites.
 */
export function canonicalRange(text: string): string | undefined {
  const range = parseRange(text)
  if (range === undefined) return undefined
  const [address, prefix] = range
  if (address instanceof ipaddr.IPv6 && isDeprecated(address, prefix)) return undefined
  return address instanceof ipaddr.IPv4
    ? `${ipaddr.IPv4.networkAddressFromCIDR(`${address.toString()}/${prefix}`).toString()}/${prefix}`
    : `${ipaddr.IPv6.networkAddressFromCIDR(`${address.toString()}/${prefix}`).toRFC5952String()}/${prefix}`
}

export function isDeprecatedRange(text: string): boolean {
  const [address, prefix] = parseRange(text) ?? []
  return address instanceof ipaddr.IPv6 && prefix !== undefined && isDeprecated(address, prefix)
}

function isDeprecated(address: ipaddr.IPv6, prefix: number): boolean {
  const [last = 0, ...rest] = address.parts.toReversed()
  // The unspecified address (::) and the loopback address (::1) are not IPv4-compatible addresses.
  return (
    prefix > 96 &&
    address.parts.slice(0, 6).every((part) => part === 0) &&
    !(prefix === 128 && last <= 1 && rest[0] === 0)
  )
}

/** Whether the new list allows no address that the old list rejects. An empty list allows all. */
export function isNarrowerOrEqualList(newList: readonly string[], oldList: readonly string[]): boolean {
  if (oldList.length === 0) return true
  if (newList.length === 0) return false
  const oldRanges = oldList.map(parseRange)
  return newList.every((text) => {
    // A key whose range has a deprecated form must stay editable.
    if (oldList.includes(text)) return true
    const range = parseRange(text)
    return range !== undefined && oldRanges.some((old) => old !== undefined && contains(old, range))
  })
}

function contains([outer, outerPrefix]: Range, [inner, innerPrefix]: Range): boolean {
  if (innerPrefix < outerPrefix) return false
  if (outer instanceof ipaddr.IPv4) return inner instanceof ipaddr.IPv4 && inner.match(outer, outerPrefix)
  return inner instanceof ipaddr.IPv6 && inner.match(outer, outerPrefix)
}

function parseRange(text: string): Range | undefined {
  const [addressText = '', prefixText, ...more] = text.split('/')
  // The library reads `1.2.3` as 1.2.0.3, and `Number` reads an empty prefix as 0, which is every address.
  const isAddress = ipaddr.IPv4.isValidFourPartDecimal(addressText) || ipaddr.IPv6.isValid(addressText)
  // The library reads `::1.2.3.4` as an IPv4 address.
  if (addressText.includes('.') && /^::[\d.]+$/.test(addressText)) return undefined
  const isPrefix = prefixText === undefined || /^\d{1,3}$/.test(prefixText)
  if (more.length > 0 || !isAddress || !isPrefix || addressText.includes('%')) return undefined
  const address = ipaddr.parse(addressText)
  const bits = address instanceof ipaddr.IPv4 ? 32 : 128
  const prefix = prefixText === undefined ? bits : Number(prefixText)
  if (prefix > bits) return undefined
  if (address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() && prefix >= 96) {
    return [address.toIPv4Address(), prefix - 96]
  }
  return [address, prefix]
}
