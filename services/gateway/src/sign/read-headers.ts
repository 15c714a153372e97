import { type ReadHeader, type SignedHeader, useOfHeader } from './header-use.ts'

type Signed = Record<SignedHeader, string | undefined>
type Read = Record<ReadHeader, string | undefined>

export interface ClientHeaders {
  readonly passed: string[]
  readonly signed: Readonly<Signed>
  readonly read: Readonly<Read>
  readonly duplicate: string | undefined
}

/** One pass. Headers that `Connection` names are not forwarded (RFC 9110, section 7.6.1). HOT PATH. */
export function readHeaders(rawHeaders: readonly string[]): ClientHeaders {
  const passed: string[] = []
  // V8 has one shape for all requests.
  const signed: Signed = {
    'content-type': undefined,
    'content-length': undefined,
    'content-digest': undefined,
    'idempotency-key': undefined,
    'if-match': undefined,
  }
  const read: Read = {
    authorization: undefined,
    host: undefined,
    connection: undefined,
    'transfer-encoding': undefined,
    'x-http-method-override': undefined,
    'x-request-id': undefined,
    'x-forwarded-for': undefined,
  }
  let duplicate: string | undefined
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const use = useOfHeader(rawHeaders[at] ?? '')
    const value = rawHeaders[at + 1] ?? ''
    switch (use.kind) {
      case 'pass':
        passed.push(use.name, value)
        break
      case 'strip':
        break
      case 'signed':
        if (!setSigned(signed, use.name, value)) duplicate = use.name
        break
      case 'read':
        if (!setRead(read, use.name, value)) duplicate = use.name
        break
      default:
        use satisfies never
    }
  }
  const { connection } = read
  if (connection !== undefined && connection !== 'keep-alive' && connection !== 'close') {
    return { passed: withoutNamed(passed, connection), signed: withoutNamedSigned(signed, connection), read, duplicate }
  }
  return { passed, signed, read, duplicate }
}

function setSigned(signed: Signed, name: SignedHeader, value: string): boolean {
  switch (name) {
    case 'content-type':
      if (signed['content-type'] !== undefined) return false
      signed['content-type'] = value
      return true
    case 'content-length':
      if (signed['content-length'] !== undefined) return false
      signed['content-length'] = value
      return true
    case 'content-digest':
      if (signed['content-digest'] !== undefined) return false
      signed['content-digest'] = value
      return true
    case 'idempotency-key':
      if (signed['idempotency-key'] !== undefined) return false
      signed['idempotency-key'] = value
      return true
    case 'if-match':
      if (signed['if-match'] !== undefined) return false
      signed['if-match'] = value
      return true
    default:
      return name satisfies never
  }
}

/** False if a single-valued header is repeated. */
function setRead(read: Read, name: ReadHeader, value: string): boolean {
  switch (name) {
    case 'authorization':
      if (read.authorization !== undefined) return false
      read.authorization = value
      return true
    case 'host':
      if (read.host !== undefined) return false
      read.host = value
      return true
    case 'connection':
      read.connection = read.connection === undefined ? value : `${read.connection},${value}`
      return true
    case 'x-http-method-override':
      if (read['x-http-method-override'] !== undefined) return false
      read['x-http-method-override'] = value
      return true
    case 'transfer-encoding':
      if (read['transfer-encoding'] !== undefined) return false
      read['transfer-encoding'] = value
      return true
    case 'x-request-id':
      if (read['x-request-id'] !== undefined) return false
      read['x-request-id'] = value
      return true
    case 'x-forwarded-for':
      read['x-forwarded-for'] = read['x-forwarded-for'] === undefined ? value : `${read['x-forwarded-for']},${value}`
      return true
    default:
      return name satisfies never
  }
}

function namesIn(connection: string): ReadonlySet<string> {
  return new Set(connection.split(',').map((name) => name.trim().toLowerCase()))
}

function withoutNamed(passed: readonly string[], connection: string): string[] {
  const named = namesIn(connection)
  return passed.filter((_text, at) => !named.has(passed[at - (at % 2)] ?? ''))
}

function withoutNamedSigned(signed: Signed, connection: string): Signed {
  const named = namesIn(connection)
  const rest = { ...signed }
  for (const name of ['content-type', 'content-digest', 'idempotency-key', 'if-match'] as const) {
    if (named.has(name)) rest[name] = undefined
  }
  return rest
}
