import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { exchangeOf, keyRecord, settle } from '../test/builders.ts'
import { keyPrincipal } from './authenticate/principal.ts'
import { createAwaitContent } from './await-content.ts'
import type { OpenRequest } from './open-requests.ts'
import { readHeaders } from './sign/read-headers.ts'

function setUp({ coding = 'chunked' }: { coding?: string | undefined } = {}) {
  const open: OpenRequest[] = []
  const awaitContent = createAwaitContent({
    openRequests: {
      add: (request) => void open.push(request),
      remove: (request) => void open.splice(open.indexOf(request), 1),
    },
    clientTimeoutMs: 60_000,
  })
  const request = new IncomingMessage(new Socket())
  const exchange = exchangeOf({
    request,
    headers: readHeaders(coding === '' ? [] : ['transfer-encoding', coding]),
    principal: keyPrincipal(keyRecord()),
  })
  return { awaitContent, exchange, request, open }
}

test('a request without a chunked body waits for nothing', () => {
  const { awaitContent, exchange, open } = setUp({ coding: '' })
  expect(awaitContent(exchange)).toBeUndefined()
  expect(open).toEqual([])
})

test('a chunked body has content once its first bytes have arrived, which stay unread', async () => {
  const { awaitContent, exchange, request, open } = setUp()
  const wait = awaitContent(exchange)
  expect(open).toHaveLength(1)
  request.push('abc')
  expect(await wait).toBeUndefined()
  expect([exchange.hasContent, open, String(request.read())]).toEqual([true, [], 'abc'])
  expect(awaitContent(exchange)).toBeUndefined()
})

test('a chunked body that ends without a byte is no body', async () => {
  const { awaitContent, exchange, request } = setUp()
  const wait = awaitContent(exchange)
  request.push(null)
  expect(await wait).toBeUndefined()
  expect(exchange.hasContent).toBe(false)
})

test('a caller that loses its access while its body is awaited is refused', async () => {
  const { awaitContent, exchange, open } = setUp()
  const wait = awaitContent(exchange)
  open[0]?.end('key_revoked', { detail: 'Why.' })
  expect(await wait).toEqual({ kind: 'refusal', code: 'key_revoked', answer: { detail: 'Why.' } })
  expect(open).toEqual([])
})

test('the wait for a body ends when its client disconnects', async () => {
  const { awaitContent, exchange, request, open } = setUp()
  const wait = awaitContent(exchange)
  request.destroy()
  await settle()
  expect(await wait).toBeUndefined()
  expect([exchange.hasContent, open]).toEqual([undefined, []])
})
