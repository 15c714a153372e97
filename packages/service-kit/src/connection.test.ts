import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http'
import { createVerifier, nilTenantId, noAssertion, parseKeyRing } from '@postern/signed-context'
import { afterEach, expect, test } from 'vitest'
import { openPeer } from './peer.ts'

const keys = parseKeyRing(`k1:${randomBytes(32).toString('base64url')}`)
const closers: (() => void)[] = []

afterEach(() => {
  for (const close of closers.splice(0)) close()
})

/** A peer, and what asks it. `answer` is told how many questions came before. */
async function startPeer(answer: (before: number, request: IncomingMessage, response: ServerResponse) => void) {
  let questions = 0
  const server = createServer((request, response) => {
    request.resume().once('end', () => {
      questions += 1
      answer(questions - 1, request, response)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const url = `http://127.0.0.1:${address.port}`
  const peer = openPeer(
    { name: 'The peer', by: 'findings', url, ring: { keyName: 'findings-peer', keys }, timeoutMs: 20_000 },
    Date.now,
  )
  const context = {
    tenantId: nilTenantId,
    kind: 'service',
    id: 'findings',
    label: '',
    scopes: [],
    roles: [],
    assertion: noAssertion,
  } as const
  const ask = async (): Promise<unknown> => await peer.ask({ context, requestId: 'request-id-1' }, '/internal/v1/x', {})
  return { ask, questions: () => questions }
}

test('a question whose connection breaks off, as when a process ends, is asked once more, and signed anew', async () => {
  const verifier = createVerifier(keys, 'findings-peer')
  const verdicts: boolean[] = []
  const { ask } = await startPeer((before, request, response) => {
    const { method = '', url: target = '', rawHeaders: headers } = request
    verdicts.push(verifier.verify({ method, target, headers }, Date.now()).ok)
    if (before === 0) request.socket.destroy()
    else response.end('{"known":true}')
  })
  expect(await ask()).toEqual({ known: true })
  // One that came twice with the same nonce would have been refused.
  expect(verdicts).toEqual([true, true])
})

test('a question that never arrives is asked twice and no more, and is then a 503', async () => {
  const { ask, questions } = await startPeer((_before, request) => request.socket.destroy())
  await expect(ask()).rejects.toMatchObject({ code: 'service_unavailable' })
  expect(questions()).toBe(2)
})

test('a question that was answered is not repeated, whatever the answer', async () => {
  const { ask, questions } = await startPeer((_before, _request, response) => response.writeHead(503).end())
  await expect(ask()).rejects.toMatchObject({ code: 'service_unavailable' })
  expect(questions()).toBe(1)
})
