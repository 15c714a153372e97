import { X509Certificate } from 'node:crypto'
import { z } from 'zod'

export const certificatesRule = 'must be one or more complete certificates in PEM, without a private key'

/** These replace the system's trust store, and are no secret. */
export const caSchema = z.string().max(65_536).refine(areCertificates, { message: certificatesRule })

/** OpenSSL skips invalid certificates, and the server's would be blamed. */
export function areCertificates(text: string): boolean {
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
