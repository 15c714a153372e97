import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { CallAnswer, Principal, SignedCaller } from '@postern/local-stack/testing'
import { Webhook } from 'standardwebhooks'
import { z } from 'zod'
import { makeCertificate } from './source-server.ts'

export interface Received {
  readonly path: string
  readonly id: string
  readonly signature: string
  readonly headers: IncomingMessage['headers']
  readonly text: string
  readonly body: { readonly type: string; readonly timestamp: string; readonly data: { readonly id: string } }
}

/** For a service that sends events and carries out no runs. */
export const webhooksOnly = { POSTERN_SYNC_WORKERS: '0', POSTERN_WEBHOOK_WORKERS: '8' } as const

type Reply = (received: Received, response: ServerResponse) => void

const bodySchema = z.object({ type: z.string(), timestamp: z.string(), data: z.looseObject({ id: z.string() }) })

/** A receiver of webhooks over TLS. `replies` by path; others answer 204. */
export async function startReceiver(replies: Record<string, Reply> = {}) {
  const certificate = await makeCertificate(['receiver.example'])
  const received: Received[] = []
  const server = createServer(certificate, (request, response) => {
    let text = ''
    request.setEncoding('utf8')
    request.on('data', (part: string) => (text += part))
    request.on('end', () => {
      const path = request.url ?? ''
      const { headers } = request
      const body = bodySchema.parse(JSON.parse(text))
      const id = String(headers['webhook-id'])
      const one = { path, id, signature: String(headers['webhook-signature']), headers, text, body }
      received.push(one)
      const reply = replies[path]
      if (reply === undefined) response.writeHead(204).end()
      else reply(one, response)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0
  return {
    url: `https://127.0.0.1:${port}`,
    ca: certificate.cert,
    received,
    at: (path: string) => received.filter((each) => each.path === path),
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Throws unless the published library accepts the signature. */
export function verify(secret: string, { text, headers }: Received): unknown {
  return new Webhook(secret).verify(text, {
    'webhook-id': String(headers['webhook-id']),
    'webhook-timestamp': String(headers['webhook-timestamp']),
    'webhook-signature': String(headers['webhook-signature']),
  })
}

export function person(tenantId: string = randomUUID()): Principal {
  return { tenantId, kind: 'user', id: 'ada', label: 'Ada Lund', scopes: [], roles: ['admin'] }
}

const endpointSchema = z.object({ id: z.string(), secret: z.string(), version: z.int() })

export async function createEndpoint(caller: SignedCaller, tenant: Principal, body: object) {
  const answer = await caller.call(tenant, 'POST', '/api/v1/webhooks', { body: { events: ['*'], ...body } })
  return endpointSchema.parse(answer.json)
}

export async function change(caller: SignedCaller, tenant: Principal, id: string, body: object): Promise<CallAnswer> {
  const { headers } = await caller.call(tenant, 'GET', `/api/v1/webhooks/${id}`)
  return await caller.call(tenant, 'PATCH', `/api/v1/webhooks/${id}`, {
    body,
    headers: { 'if-match': String(headers['etag']) },
  })
}

type Rows = (text: string, values?: readonly unknown[]) => Promise<Record<string, unknown>[]>

/** Two workers read the feeds of all tenants in turn, so those of earlier tests would delay the next one. */
export async function deleteEndpoints(rows: Rows): Promise<void> {
  await rows(
    `update sync.webhook_endpoint set state = 'disabled', paused_at = null, deleted_at = now() where deleted_at is null`,
  )
}

/** Each in its own transaction. Returns their ids in that order. */
export async function endRuns(rows: Rows, { tenantId }: Principal, count = 1): Promise<string[]> {
  const ids: string[] = []
  for (let n = 0; n < count; n++) {
    const [row] = await rows(
      `insert into sync.run (tenant_id, source, status, finished_at, created_by_type, created_by_id, created_by_label, request_id)
       values ($1, 'inline', 'succeeded', now(), 'user', 'ada', 'Ada Lund', 'r') returning id`,
      [tenantId],
    )
    ids.push(String(row?.['id']))
  }
  return ids
}
