import { setTimeout as delay } from 'node:timers/promises'
import { connectorSchema, runSchema } from '@postern/contracts'
import { request } from 'undici'
import { z } from 'zod'
import type { DemoConnector } from './connectors.ts'
import { retryWhileBusy } from './retry-while-busy.ts'
import type { PushTarget } from './write-universe.ts'

/** How long a run of a demo may take, in milliseconds; one that takes longer goes on without anybody waiting. */
const patienceMs = 60_000

/** Sets connectors up, and has them read what was uploaded, where they have not done so yet. */
export async function writeConnectors(target: PushTarget, connectors: readonly DemoConnector[]): Promise<void> {
  for (const { body, uploads, isPaused } of connectors) {
    // 409: an interrupted run of this command has made it.
    await call(target, 'POST', '/api/v1/connectors', { json: body }, [201, 409])
    const found = await call(target, 'GET', `/api/v1/connectors/key:${body.key}`)
    const { id, state } = connectorSchema.parse(found.json)
    const begun = await call(target, 'GET', `/api/v1/sync-runs?connector=${body.key}`)
    const runs = z.array(z.unknown()).parse(begun.json)
    for (const csv of uploads.slice(runs.length)) await upload(target, id, csv)
    if (isPaused && state === 'active') {
      await call(target, 'PATCH', `/api/v1/connectors/${id}`, { json: { state: 'paused' }, ifMatch: found.etag })
    }
  }
}

/** Pushes users as an identity provider does. 409: they are there. */
export async function writeScimUsers(target: PushTarget, users: readonly object[]): Promise<void> {
  for (const user of users) await call(target, 'POST', '/scim/v2/Users', { json: user }, [201, 409])
}

async function upload(target: PushTarget, connector: string, csv: string): Promise<void> {
  let run = runSchema.parse((await call(target, 'POST', `/api/v1/connectors/${connector}/runs`, { csv }, [202])).json)
  const endsAt = performance.now() + patienceMs
  while (run.finished_at === null && run.status !== 'needs_approval' && performance.now() < endsAt) {
    await delay(50)
    run = runSchema.parse((await call(target, 'GET', `/api/v1/sync-runs/${run.id}`)).json)
  }
}

async function call(
  { gateway, key }: PushTarget,
  method: 'GET' | 'POST' | 'PATCH',
  path: string,
  content: { readonly json?: unknown; readonly csv?: string; readonly ifMatch?: string } = {},
  expected: readonly number[] = [200],
): Promise<{ readonly json: unknown; readonly etag: string }> {
  const type = content.csv === undefined ? 'application/json' : 'text/csv'
  const body = content.csv ?? (content.json === undefined ? undefined : JSON.stringify(content.json))
  const answer = await retryWhileBusy(
    async () => {
      const {
        statusCode,
        headers,
        body: received,
      } = await request(`${gateway}${path}`, {
        method,
        headers: {
          authorization: `ApiKey ${key}`,
          ...(body === undefined ? {} : { 'content-type': type }),
          ...(content.ifMatch === undefined ? {} : { 'if-match': content.ifMatch }),
        },
        ...(body === undefined ? {} : { body }),
      })
      return { statusCode, headers, text: await received.text() }
    },
    ({ statusCode }) => statusCode,
  )
  const { text } = answer
  if (expected.includes(answer.statusCode))
    return { json: JSON.parse(text), etag: String(answer.headers['etag'] ?? '') }
  throw new Error(`could not ${method} ${path}: the answer was ${answer.statusCode} ${text.slice(0, 500)}`)
}
