import { describe, expect, test } from 'vitest'

import {
  assertionHeader,
  contextHeader,
  requestIdHeader,
  signatureHeader,
  signatureInputHeader,
  strippedHeaderPrefixes,
  strippedHeaders,
} from './platform-headers.ts'

function isStripped(name: string): boolean {
  const folded = name.toLowerCase().replaceAll('_', '-')
  return (
    strippedHeaders.some((stripped) => stripped === folded) ||
    strippedHeaderPrefixes.some((prefix) => folded.startsWith(prefix))
  )
}

describe('a client cannot send', () => {
  test.each([contextHeader, assertionHeader, requestIdHeader, signatureHeader, signatureInputHeader])(
    '%s, which makes a service trust the gateway',
    (name) => {
      expect(isStripped(name)).toBe(true)
    },
  )

  test.each([
    'Authorization',
    'Cookie',
    'Connection',
    'Keep-Alive',
    'TE',
    'Trailer',
    'Transfer-Encoding',
    'Upgrade',
    'Proxy-Authorization',
    'HTTP2-Settings',
    'Expect',
    'Host',
    'Forwarded',
    'X-Forwarded-For',
    'X-Forwarded-Host',
    'X-Real-IP',
    'X-Original-URL',
    'X-Rewrite-URL',
    'X-HTTP-Method-Override',
    'X-Method-Override',
    'X-Tenant-Id',
    'x_tenant_id',
    'X-TENANT-ID',
    'X-User-Id',
    'X-Auth-Request-User',
    'Postern_Context',
    'X-Postern-Scopes',
  ])('%s, in any spelling', (name) => {
    expect(isStripped(name)).toBe(true)
  })
})

describe('a service receives', () => {
  // The client sets the headers that describe the body or make the request conditional. The signature covers them.
  test.each([
    'Content-Type',
    'Content-Length',
    'Content-Digest',
    'Idempotency-Key',
    'If-Match',
    'If-None-Match',
    'Accept',
    'Accept-Encoding',
    'Accept-Language',
    'Range',
    'User-Agent',
    'Traceparent',
  ])('%s', (name) => {
    expect(isStripped(name)).toBe(false)
  })
})

describe('the list of stripped headers', () => {
  test('has lower-case names with hyphens, each once', () => {
    for (const name of [...strippedHeaders, ...strippedHeaderPrefixes])
      expect(name).toMatch(/^[a-z0-9]+(-[a-z0-9]+)*-?$/)
    expect(new Set(strippedHeaders).size).toBe(strippedHeaders.length)
    expect(new Set(strippedHeaderPrefixes).size).toBe(strippedHeaderPrefixes.length)
  })
})
