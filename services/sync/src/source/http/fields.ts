import { X509Certificate } from 'node:crypto'
import { z } from 'zod'

/** One line of text. */
export const line = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .regex(/^[^\p{Cc}]*$/u, { message: 'must be one line' })

/** Where an HTTP source is. Plain http is for addresses that the platform has listed as its own; that shows when connecting. */
export const urlSchema = z
  .string()
  .max(2000)
  .refine(isHttpUrl, { message: 'must be an https URL without a user, a password or a fragment' })

/** Certificates (PEM) that are trusted in place of the system's. Public, hence no secret. */
export const caSchema = z
  .string()
  .max(65_536)
  .refine(areCertificates, { message: 'must be one or more whole certificates in PEM, and no key' })

/** Certificates of which each can be read: what OpenSSL cannot read it leaves out without a word, and the server's would be blamed. */
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
