import { z } from 'zod'

/** RFC 5321 §4.5.3.1.3: a path has 256 octets with angle brackets. */
const maxAddressBytes = 254
/** RFC 5321 §4.5.3.1.1. */
const maxLocalBytes = 64
/** RFC 1035 §2.3.4. */
const maxLabelLength = 63

// RFC 6531 §3.3 allows any UTF-8; we reject control and invisible characters.
const invisible = /(?!\u200c|\u200d)\p{C}|[^\P{Z} ]/u
const atoms = /^[\w!#$%&'*+/=?^`{|}~\u0080-\u{10ffff}-]+(?:\.[\w!#$%&'*+/=?^`{|}~\u0080-\u{10ffff}-]+)*$/u
const quoted = /^"(?:[ !#-[\]-~\u0080-\u{10ffff}]|\\[ -~])*"$/u
const label = /^[\p{L}\p{N}](?:(?:[\p{L}\p{M}\p{N}-]|\u200c|\u200d)*[\p{L}\p{M}\p{N}])?$/u

/** RFC 5321 §4.1.2, RFC 6531. */
export function isEmailAddress(text: string): boolean {
  const at = text.lastIndexOf('@')
  const [local, domain] = [text.slice(0, Math.max(0, at)), text.slice(at + 1)]
  if (at < 1 || invisible.test(text)) return false
  if (isLongerThan(maxAddressBytes, text) || isLongerThan(maxLocalBytes, local)) return false
  return (atoms.test(local) || quoted.test(local)) && isDomain(domain)
}

/** In octets; a character of a string has up to three. Browsers have no `Buffer`. */
function isLongerThan(bytes: number, text: string): boolean {
  return text.length * 3 > bytes && new TextEncoder().encode(text).length > bytes
}

function isDomain(domain: string): boolean {
  if (domain.startsWith('[') && domain.endsWith(']')) {
    const literal = domain.slice(1, -1)
    if (/^ipv6:/i.test(literal)) return z.ipv6().safeParse(literal.slice('ipv6:'.length)).success
    return z.ipv4().safeParse(literal).success
  }
  return domain.split('.').every((each) => each.length <= maxLabelLength && label.test(each))
}

/** Readable in any language, and accepts every valid address. */
const published = /^(?:"[^\r\n]*"|[^\s@"(),:;<>[\]\\]+)@(?:\[[0-9A-Za-z.:]+\]|[^\s@",]+)$/
const message = 'must be an e-mail address'

/** An e-mail address in any case. */
export const emailSchema = z
  .string()
  .regex(published, { message, abort: true })
  .refine(isEmailAddress, { message })
  .meta({ minLength: 3, maxLength: maxAddressBytes, examples: ['ada.lund@harbourline.example'] })

/** A batch is accepted without its invalid addresses. */
export const sentEmailSchema = z.string().meta({
  description: 'An invalid address (RFC 5321, RFC 6531) is left out, and `warnings` names it',
  examples: ['ada.lund@harbourline.example'],
})
