import { entitySchema } from '@postern/contracts'
import { request } from 'undici'
import { z } from 'zod'
import type { DemoPeople } from './people.ts'
import type { DemoUniverse } from './universe.ts'

/** Where a demo is pushed to: the gateway, with a key that may push and read. */
export interface PushTarget {
  readonly gateway: string
  readonly key: string
}

/**
 * Pushes people, entities, hierarchies and test procedures as a connector would. Again changes nothing. Test procedures
 * that are completed are still in review then: a completed one takes no evidence.
 */
export async function pushUniverse(target: PushTarget, people: DemoPeople, universe: DemoUniverse): Promise<void> {
  await push(target, 'people', people.rows)
  await push(target, 'entities', universe.entities)
  for (const { key, push: hierarchy } of universe.hierarchies) await push(target, `org-structures/${key}`, hierarchy)
  const open = universe.testProcedures.map(({ conclusion: _conclusion, ...procedure }) =>
    procedure.status === 'completed' ? { ...procedure, status: 'in_review' } : procedure,
  )
  await push(target, 'test-procedures', open)
}

/** Pushes the test procedures as they are in the end. */
export async function completeTestProcedures(target: PushTarget, { testProcedures }: DemoUniverse): Promise<void> {
  await push(target, 'test-procedures', testProcedures)
}

/** The ids that the universe has given to entities, by their external ids. */
export async function readEntityIds(target: PushTarget): Promise<Map<string, string>> {
  const ids = new Map<string, string>()
  let next: string | undefined = '/api/v1/entities?limit=200'
  while (next !== undefined) {
    const answer: Answer = await call(target, 'GET', next)
    const page = z.array(entitySchema.pick({ id: true, external_id: true })).parse(JSON.parse(answer.text))
    for (const { id, external_id } of page) if (external_id !== null) ids.set(external_id, id)
    next = /<([^>]+)>; rel="next"/.exec(answer.link)?.[1]
  }
  return ids
}

async function push(target: PushTarget, what: string, body: unknown): Promise<void> {
  await call(target, 'POST', `/api/v1/sync/${what}`, body)
}

interface Answer {
  readonly text: string
  readonly link: string
}

async function call(
  { gateway, key }: PushTarget,
  method: 'GET' | 'POST',
  target: string,
  content?: unknown,
): Promise<Answer> {
  const { statusCode, headers, body } = await request(`${gateway}${target}`, {
    method,
    headers: {
      authorization: `ApiKey ${key}`,
      ...(content === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(content === undefined ? {} : { body: JSON.stringify(content) }),
  })
  const text = await body.text()
  if (statusCode !== 200) {
    throw new Error(
      `could not ${method} ${target.split('?', 1)[0]}: the answer was ${statusCode} ${text.slice(0, 500)}`,
    )
  }
  return { text, link: String(headers['link'] ?? '') }
}
