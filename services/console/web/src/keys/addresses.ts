const byte = '(?:25[0-5]|2[0-4]\\d|1?\\d?\\d)'
const v4 = new RegExp(`^${byte}(?:\\.${byte}){3}$`)

export function addressesIn(text: string): string[] {
  return text.split(/[\s,;]+/).filter((address) => address !== '')
}

export function faultIn(addresses: readonly string[]): string | undefined {
  const none = addresses.find((address) => !isAddress(address))
  if (none === undefined) return undefined
  return `“${none}” is not an address or network. Use a form such as 203.0.113.7, 203.0.113.0/24 or 2001:db8::/32.`
}

function isAddress(text: string): boolean {
  const [address = '', length, ...rest] = text.split('/')
  const isV4 = v4.test(address)
  // The browser validates IPv6.
  if (!isV4 && !(/^[\da-f:.]+$/i.test(address) && URL.canParse(`http://[${address}]/`))) return false
  return (
    rest.length === 0 && (length === undefined || (/^\d{1,3}$/.test(length) && Number(length) <= (isV4 ? 32 : 128)))
  )
}
