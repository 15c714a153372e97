import { X509Certificate } from 'node:crypto'
import { z } from 'zod'

export const certificatesRule = 'must be one or more complete certificates in PEM, without a private key'

/** Certificates that replace the system's trust store. They are not secret. */
export const caSchema = z.string().max(65_536).refine(areCertificates, { message: certificatesRule })

/** Returns whether all certificates are valid. OpenSSL would skip an invalid one and reject the server's certificate. */
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
