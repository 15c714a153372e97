/**
 * @promise Edge: Clients can neither set nor remove headers of the platform.
 * @alsoShownBy services/gateway/src/sign/read-headers.test.ts
 */

import { type Server, createServer } from 'node:http'
import { startTestStack, findFreePort, type TestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { sendRaw } from '../support/raw.ts'

let stack: TestStack
let gateway: string
let key: string
let tenantId: string
/** Replaces the findings service and records the received bytes. */
let recorder: Server
let received: string[][] = []

beforeAll(async () => {
  const port = await findFreePort()
  recorder = createServer((request, response) => {
    received.push(request.rawHeaders)
    request.resume()
    response.writeHead(200, { 'content-type': 'application/json' }).end('[]')
  })
  const listening = Promise.withResolvers<void>()
  recorder.listen(port, '127.0.0.1', listening.resolve)
  await listening.promise
  stack = await startTestStack()
  await stack.restart('gateway-1', { POSTERN_FINDINGS_URL: `http://127.0.0.1:${port}` })
  gateway = stack.gateways[0] ?? ''
  const tenant = await stack.createTenant()
  tenantId = tenant.id
  key = (await stack.createKey(tenant, { scopes: ['read:findings'] })).key
})

afterAll(async () => {
  await stack.stop()
  recorder.closeAllConnections()
  recorder.close()
})

beforeEach(() => {
  received = []
})

/** What the service receives when the client adds these headers: lower-case name → values. */
async function forwarded(...headers: readonly string[]): Promise<Map<string, string[]>> {
  const bytes = `GET /api/v1/findings HTTP/1.1\r\nHost: postern\r\nAuthorization: ApiKey ${key}\r\n${headers.map((line) => `${line}\r\n`).join('')}\r\n`
  let answer = await sendRaw(gateway, bytes)
  // On a machine that is busy enough a gateway may be without its lease, and can then know nothing.
  while (answer.statuses[0] === 503) answer = await sendRaw(gateway, bytes)
  expect(answer.statuses, answer.text).toEqual([200])
  const raw = received.at(-1) ?? []
  const values = new Map<string, string[]>()
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = (raw[at] ?? '').toLowerCase()
    values.set(name, [...(values.get(name) ?? []), raw[at + 1] ?? ''])
  }
  return values
}

describe('a client cannot set headers of the platform', () => {
  test.each([
    'Postern-Context: tenant="00000000-0000-4000-8000-000000000000", kind=user, id="x", label="", scopes="", roles="admin"',
    'POSTERN-CONTEXT: forged',
    'postern_context: forged',
    'Postern_Context: forged',
    'Postern-Assertion: forged',
    'postern_assertion: forged',
    'X-Postern-Tenant: forged',
    'Tenant-Id: forged',
    'X-Tenant-Id: forged',
    'x_tenant_id: forged',
    'X-TENANT-ID: forged',
    'Signature: postern=:forged:',
    'Signature-Input: postern=();forged',
    'signature_input: forged',
    'X-User: forged',
    'X-Auth-Request-User: forged',
    'X-Forwarded-For: forged',
    'X-Forwarded-Host: forged',
    'Forwarded: for=forged',
    'X-Real-IP: forged',
    'X-Original-URL: /forged',
    'X-Rewrite-URL: /forged',
    'X-HTTP-Method-Override: forged',
    'Cookie: session=forged',
    'TE: forged',
    'Keep-Alive: forged',
    'Proxy-Authorization: forged',
    'True-Client-IP: forged',
  ])('with %s', async (header) => {
    const headers = await forwarded(header)
    expect(JSON.stringify([...headers])).not.toContain('forged')
    expect(headers.get('postern-context')).toHaveLength(1)
    expect(headers.get('postern-context')?.[0]).toContain(`tenant="${tenantId}", kind=api_key`)
    expect(headers.get('signature')).toHaveLength(1)
  })

  test('the gateway removes headers that no service reads; the control: headers that services read arrive unchanged', async () => {
    const headers = await forwarded('X-Trace-Note: forged-looking', 'Accept-Language: de')
    expect(headers.has('x-trace-note')).toBe(false)
    expect(headers.get('accept-language')).toEqual(['de'])
  })

  test('the key itself never leaves the gateway', async () => {
    const headers = await forwarded()
    expect(headers.has('authorization')).toBe(false)
    expect(JSON.stringify([...headers])).not.toContain(key)
  })
})

describe('the gateway removes headers that Connection names', () => {
  const given = ['If-Match: "7"', 'Idempotency-Key: nightly-2026-11-21', 'Accept: application/json', 'Prefer: here']
  const platform = ['postern-context', 'postern-assertion', 'signature', 'signature-input', 'x-request-id']

  test.each([...platform, 'host', 'authorization', 'content-length', 'transfer-encoding', 'connection', 'close'])(
    'but with %s named, one name alone, the service is sent what it is sent without',
    async (name) => {
      const [usual, named] = [await forwarded(...given), await forwarded(...given, `Connection: ${name}`)]
      expect(new Set(named.keys())).toEqual(new Set(usual.keys()))
      for (const each of platform) expect(named.get(each), each).toHaveLength(1)
      expect(named.get('postern-context')).toEqual(usual.get('postern-context'))
      expect(named.get('if-match')).toEqual(['"7"'])
    },
  )

  // The client could omit these headers. They do not identify it.
  test.each(['if-match', 'idempotency-key', 'accept', 'prefer'])(
    'control: %s is removed if Connection names it',
    async (name) => {
      const [usual, named] = [await forwarded(...given), await forwarded(...given, `Connection: ${name}`)]
      expect([usual.has(name), named.has(name)]).toEqual([true, false])
      for (const each of platform) expect(named.get(each), each).toHaveLength(1)
    },
  )

  test('but naming a header of the platform does not remove it', async () => {
    const headers = await forwarded(
      'Connection: close, X-Hop, postern-context, postern-assertion, signature, signature-input, x-request-id',
      'X-Hop: here',
    )
    expect(headers.has('x-hop')).toBe(false)
    for (const name of ['postern-context', 'postern-assertion', 'signature', 'signature-input', 'x-request-id']) {
      expect(headers.get(name), name).toHaveLength(1)
    }
  })
})

describe('the request id', () => {
  test('of the client is kept if it is valid', async () => {
    expect((await forwarded('X-Request-Id: nightly-2026-11-21.1')).get('x-request-id')).toEqual([
      'nightly-2026-11-21.1',
    ])
  })

  test.each(['short', 'a b c d e f g h', `x${'y'.repeat(200)}`, '"quoted-id-00"', '../../etc/passwd'])(
    'of the client is replaced when it is %j',
    async (id) => {
      expect((await forwarded(`X-Request-Id: ${id}`)).get('x-request-id')).not.toEqual([id])
    },
  )
})
