import { entitySchema } from '@postern/contracts'
import { request } from 'undici'
import { z } from 'zod'
import type { DemoPeople } from './people.ts'
import { retryWhileBusy } from './retry-while-busy.ts'
import type { DemoUniverse } from './universe.ts'

/** Where a demo is pushed to: the gateway, with a key that may push and read. */
export interface PushTarget {
  readonly gateway: string
  readonly key: string
}

/**
 * Pushes people, entities, hierarchies and test procedures as a connector would. Again changes nothing. Test procedures
 * that are to be completed are in review then: a completed one takes no evidence. What a run before has completed stays so.
 */
export async function pushUniverse(target: PushTarget, people: DemoPeople, universe: DemoUniverse): Promise<void> {
  await pushParts(target, 'people', people.rows)
  // A parent comes before its children: it is in the same part, or there.
  await pushParts(target, 'entities', universe.entities, perTreePush)
  for (const { key, push: hierarchy } of universe.hierarchies) await push(target, `org-structures/${key}`, hierarchy)
  const completed = await readIds(target, '/api/v1/test-procedures?status=completed')
  const open = universe.testProcedures
    .filter(({ external_id: id }) => !completed.has(id))
    .map(({ conclusion: _conclusion, ...procedure }) =>
      procedure.status === 'completed' ? { ...procedure, status: 'in_review' } : procedure,
    )
  await pushParts(target, 'test-procedures', open)
}

/** Pushes the test procedures as they are in the end. */
export async function completeTestProcedures(target: PushTarget, { testProcedures }: DemoUniverse): Promise<void> {
  await pushParts(target, 'test-procedures', testProcedures)
}

/** The ids that the universe has given to entities, by their external ids. */
export async function readEntityIds(target: PushTarget): Promise<Map<string, string>> {
  return await readIds(target, '/api/v1/entities')
}

const listed = z.array(entitySchema.pick({ id: true, external_id: true }))

async function readIds(target: PushTarget, list: string): Promise<Map<string, string>> {
  const ids = new Map<string, string>()
  let next: string | undefined = `${list}${list.includes('?') ? '&' : '?'}limit=1000`
  while (next !== undefined) {
    const answer: Answer = await call(target, 'GET', next)
    for (const { id, external_id } of listed.parse(JSON.parse(answer.text)))
      if (external_id !== null) ids.set(external_id, id)
    next = /<([^>]+)>; rel="next"/.exec(answer.link)?.[1]
  }
  return ids
}

/** Rows of one push, where they are plain, and where each has its place in a tree. */
const perPush = 2000
const perTreePush = 1000

function partsOf<Row>(rows: readonly Row[], size = perPush): Row[][] {
  return Array.from({ length: Math.ceil(rows.length / size) }, (_none, index) =>
    rows.slice(index * size, (index + 1) * size),
  )
}

async function pushParts(target: PushTarget, what: string, rows: readonly unknown[], size = perPush): Promise<void> {
  for (const part of partsOf(rows, size)) await push(target, what, part)
}

/** The same push again is harmless, whatever has become of the first. */
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
  const { statusCode, headers, text } = await retryWhileBusy(
    async () => {
      const answer = await request(`${gateway}${target}`, {
        method,
        headers: {
          authorization: `ApiKey ${key}`,
          ...(content === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(content === undefined ? {} : { body: JSON.stringify(content) }),
      })
      return { statusCode: answer.statusCode, headers: answer.headers, text: await answer.body.text() }
    },
    (answer) => answer.statusCode,
  )
  if (statusCode !== 200) {
    throw new Error(
      `could not ${method} ${target.split('?', 1)[0]}: the answer was ${statusCode} ${text.slice(0, 500)}`,
    )
  }
  return { text, link: String(headers['link'] ?? '') }
}
