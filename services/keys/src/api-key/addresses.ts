import ipaddr from 'ipaddr.js'

type Range = readonly [ipaddr.IPv4 | ipaddr.IPv6, number]

/**
 * Gives an address range in the one form in which it is stored and compared: with its prefix, host bits cleared, IPv4 in
 * IPv6 clothing (`::ffff:a.b.c.d`) as IPv4. Undefined when the text is no address or range, or one in the deprecated form for IPv4 addresses in
 * IPv6 (`::a.b.c.d`, RFC 4291 §2.5.5.1): PostgreSQL writes it otherwise than it was given, and readers take it for IPv4.
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

/** Whether a text is a range of IPv4-compatible IPv6 addresses, which RFC 4291 section 2.5.5.1 deprecates. */
export function isDeprecatedRange(text: string): boolean {
  const [address, prefix] = parseRange(text) ?? []
  return address instanceof ipaddr.IPv6 && prefix !== undefined && isDeprecated(address, prefix)
}

function isDeprecated(address: ipaddr.IPv6, prefix: number): boolean {
  const [last = 0, ...rest] = address.parts.toReversed()
  // The unspecified and the loopback address are none of them.
  return (
    prefix > 96 &&
    address.parts.slice(0, 6).every((part) => part === 0) &&
    !(prefix === 128 && last <= 1 && rest[0] === 0)
  )
}

/** Whether every address that the new list lets in was let in by the old one. An empty list lets in all. */
export function isNarrowerOrEqualList(newList: readonly string[], oldList: readonly string[]): boolean {
  if (oldList.length === 0) return true
  if (newList.length === 0) return false
  const oldRanges = oldList.map(parseRange)
  return newList.every((text) => {
    // Also what is stored from before, in a form that is taken no more: a key that has it can still be changed.
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
  // Strict, because the library is not: it reads `1.2.3` as 1.2.0.3, and Number reads an empty prefix as 0, all addresses.
  const isAddress = ipaddr.IPv4.isValidFourPartDecimal(addressText) || ipaddr.IPv6.isValid(addressText)
  // The library takes this for an IPv4 address.
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
