import { X509Certificate } from 'node:crypto'
import { z } from 'zod'

export const line = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .regex(/^[^\p{Cc}]*$/u, { message: 'must be one line' })

/** Plain http is checked when connecting. */
export const urlSchema = z
  .string()
  .max(2000)
  .refine(isHttpUrl, { message: 'must be an https URL without a user, a password or a fragment' })

/** These replace the system's trust store, and are no secret. */
export const caSchema = z
  .string()
  .max(65_536)
  .refine(areCertificates, { message: 'must be one or more complete certificates in PEM, without a private key' })

/** OpenSSL skips invalid certificates, and the server's would be blamed. */
function areCertificates(text: string): boolean {
  if (text.includes('PRIVATE KEY')) return false
  const whole = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
  const begun = text.split('-----BEGIN CERTIFICATE-----').length - 1
  return whole.length > 0 && whole.length === begun && whole.every(isCertificate)
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0
  } catch {
    return false
  }
}

function isHttpUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, hash } = new URL(text)
  return (protocol === 'https:' || protocol === 'http:') && username === '' && password === '' && hash === ''
}
