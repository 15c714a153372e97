import { SourceReadError } from '../source/source-read-error.ts'

/** OpenSSL's codes for data that is not TLS. */
const plain: ReadonlySet<string> = new Set([
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'ERR_SSL_UNKNOWN_PROTOCOL',
  'ERR_SSL_HTTP_REQUEST',
  'ERR_SSL_HTTPS_PROXY_REQUEST',
  'ERR_SSL_PACKET_LENGTH_TOO_LONG',
  'ERR_SSL_RECORD_TOO_SMALL',
])

/** Describes a TLS failure by Node's code. Undefined for other errors. */
export function tlsFailure(code: unknown, host: string, cause: Error): SourceReadError | undefined {
  if (typeof code !== 'string') return undefined
  if (plain.has(code)) {
    const message = `${host} does not speak TLS at that port: check host and port, or enable TLS on the server`
    return new SourceReadError('not_encrypted', message, { cause })
  }
  if (code.startsWith('ERR_SSL_')) {
    const message = `the TLS handshake with ${host} failed (${code.slice(0, 80)}): make it support TLS 1.2 or 1.3 without client certificates`
    return new SourceReadError('answer_broken', message, { cause })
  }
  if (!isCertificateError(code)) return undefined
  const message = `the certificate of ${host} is not trusted (${code}): fix it, or set \`ca\``
  return new SourceReadError('certificate_not_trusted', message, { cause })
}

/** Matches Node's codes for OpenSSL's certificate errors and for its own check of the name. */
function isCertificateError(code: string): boolean {
  return /CERT|_SIGNATURE|_CRL|^(?:INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED|HOSTNAME_MISMATCH)$/.test(code)
}
