type DescribeFailure = (origin: URL) => string

const describeUntrusted: DescribeFailure = ({ origin }) =>
  `the certificate of ${origin} is not signed by an authority that this machine trusts. Set NODE_EXTRA_CA_CERTS to a PEM file with your authority's certificate`

const describeMissingTls: DescribeFailure = ({ origin }) =>
  `${origin} does not speak TLS on this port. Check whether the URL should begin with http://`

const describeClientCertificate: DescribeFailure = ({ origin }) =>
  `${origin} requires a client certificate, which this command cannot send. Use an address that accepts API keys`

const describeClosed: DescribeFailure = ({ origin }) =>
  `${origin} closed the connection without a response. Check the port, and whether the URL should begin with https://`

const describeNonHttp: DescribeFailure = ({ origin }) =>
  `${origin} did not answer with HTTP. Check the port, and whether the URL should begin with https://`

const describeTimeout: DescribeFailure = ({ origin }) =>
  `${origin} did not accept a connection in time. Check the port and the firewall`

const describeMissingRoute: DescribeFailure = ({ host }) =>
  `there is no network route to ${host}. Check the address, VPN and firewall`

const byCode: Readonly<Record<string, DescribeFailure>> = {
  ENOTFOUND: ({ hostname }) =>
    `the host name ${hostname} cannot be resolved. Check its spelling, and that DNS knows it`,
  EAI_AGAIN: ({ hostname }) => `the DNS server did not answer for the host name ${hostname}. Try again`,
  ECONNREFUSED: ({ origin }) => `nothing listens at ${origin}. Check the port, and that Postern is running`,
  EHOSTUNREACH: describeMissingRoute,
  ENETUNREACH: describeMissingRoute,
  ETIMEDOUT: describeTimeout,
  UND_ERR_CONNECT_TIMEOUT: describeTimeout,
  ECONNRESET: describeClosed,
  EPIPE: describeClosed,
  UND_ERR_SOCKET: describeClosed,
  DEPTH_ZERO_SELF_SIGNED_CERT: describeUntrusted,
  SELF_SIGNED_CERT_IN_CHAIN: describeUntrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: describeUntrusted,
  UNABLE_TO_GET_ISSUER_CERT: describeUntrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: describeUntrusted,
  CERT_UNTRUSTED: describeUntrusted,
  INVALID_CA: describeUntrusted,
  CERT_SIGNATURE_FAILURE: describeUntrusted,
  CERT_HAS_EXPIRED: ({ origin }) =>
    `the certificate of ${origin} has expired. Renew it, and check the clock of this machine`,
  CERT_NOT_YET_VALID: ({ origin }) =>
    `the certificate of ${origin} is not valid yet. Check the clock of this machine and of the server`,
  CERT_REVOKED: ({ origin }) => `the certificate of ${origin} has been revoked. Replace it`,
  ERR_TLS_CERT_ALTNAME_INVALID: ({ origin, hostname }) =>
    `the certificate of ${origin} is for another host name than ${hostname}. Use a name that is in the certificate`,
  ERR_SSL_WRONG_VERSION_NUMBER: describeMissingTls,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: describeMissingTls,
  ERR_SSL_HTTP_REQUEST: describeMissingTls,
  ERR_SSL_UNSUPPORTED_PROTOCOL: ({ origin }) => `${origin} speaks only versions of TLS that are too old`,
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: ({ origin }) => `${origin} does not accept this version of TLS`,
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: describeClientCertificate,
  ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE: ({ origin }) =>
    `${origin} ended the TLS handshake. It may require a client certificate, or not know this host name`,
}

// Failures before the request can reach the server.
const beforeRequest =
  /^(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|DEPTH_ZERO_.*|SELF_SIGNED_.*|UNABLE_TO_.*|CERT_.*|INVALID_CA|ERR_TLS_.*|ERR_SSL_.*)$/

/** Explains why `url` sent no response, and what to do. Also inspects `error.cause`. */
export function describeConnectionFailure(error: unknown, url: URL): string {
  const code = connectionCode(error)
  const describe = code === undefined ? undefined : byCode[code]
  if (describe !== undefined) return describe(url)
  if (code?.startsWith('HPE_')) return describeNonHttp(url)
  if (code?.startsWith('ERR_SSL_')) return `the TLS handshake with ${url.origin} failed (${code})`
  return `${url.origin} does not answer (${code ?? findRootCause(error).message})`
}

export function describeRedirect({ origin }: URL): string {
  return `${origin} redirects to another address, perhaps to a sign-in. Use the address of the gateway itself`
}

export function describeForeignAnswer({ origin }: URL): string {
  return `${origin} answered with something that is not the API, perhaps the page of a proxy or the console. Check the URL`
}

export function isBeforeRequest(error: unknown): boolean {
  const code = connectionCode(error)
  return code !== undefined && beforeRequest.test(code)
}

/** `fetch` wraps the error of the connection. */
function connectionCode(error: unknown): string | undefined {
  const cause = findRootCause(error)
  // The HTTP parser's error in fetch has a name but no code.
  if (cause.name === 'HTTPParserError') return 'HPE_INVALID'
  const code: unknown = Reflect.get(cause, 'code')
  return typeof code === 'string' ? code : undefined
}

function findRootCause(error: unknown): Error {
  if (!(error instanceof Error)) return new Error('unknown error')
  return error.cause instanceof Error ? findRootCause(error.cause) : error
}
