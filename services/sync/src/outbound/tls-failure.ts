import { SourceFailure } from '../source/failure.ts'

/** What OpenSSL says of bytes that are no TLS. */
const plain: ReadonlySet<string> = new Set([
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'ERR_SSL_UNKNOWN_PROTOCOL',
  'ERR_SSL_HTTP_REQUEST',
  'ERR_SSL_HTTPS_PROXY_REQUEST',
  'ERR_SSL_PACKET_LENGTH_TOO_LONG',
  'ERR_SSL_RECORD_TOO_SMALL',
])

/** Says what to mend where TLS with a source could not begin; undefined where it is something else that failed. `code` is Node's name of it. */
export function tlsFailure(code: unknown, host: string, cause: Error): SourceFailure | undefined {
  if (typeof code !== 'string') return undefined
  if (plain.has(code)) {
    const message = `${host} speaks no TLS at that port: check host and port, or switch TLS on there`
    return new SourceFailure('not_encrypted', message, { cause })
  }
  if (code.startsWith('ERR_SSL_')) {
    const message = `no TLS could be agreed on with ${host} (${code.slice(0, 80)}): have it speak TLS 1.2 or 1.3, and want no certificate of its clients`
    return new SourceFailure('answer_broken', message, { cause })
  }
  if (!isCertificateError(code)) return undefined
  const message = `the certificate of ${host} is not trusted (${code}): mend it, or set \`ca\``
  return new SourceFailure('certificate_not_trusted', message, { cause })
}

/** Node names what OpenSSL says of a certificate, and its own check of the name in it. */
function isCertificateError(code: string): boolean {
  return /CERT|_SIGNATURE|_CRL|^(?:INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED|HOSTNAME_MISMATCH)$/.test(code)
}
