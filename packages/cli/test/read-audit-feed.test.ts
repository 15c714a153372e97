/** @promise Keys and secrets: An operator follows the audit feed, and continues where the command stopped. */

import { type AuditEvent, auditEventSchema } from '@postern/contracts'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type CommandWorld, openCommandWorld } from './command-world.ts'

let world: CommandWorld
beforeAll(async () => {
  world = await openCommandWorld()
})
afterAll(async () => await world.stack.stop())

const program = join(import.meta.dirname, '..', 'src', 'main.ts')

function parseLines(text: string): AuditEvent[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => auditEventSchema.parse(JSON.parse(line)))
}

function follow(...args: readonly string[]) {
  const command = ['audit', 'tail', '--tenant', world.tenant.slug, '--follow', ...args]
  const child = spawn(process.execPath, [program, ...command], {
    env: {
      POSTERN_KEYS_URL: world.stack.serviceUrl('keys'),
      POSTERN_SIGNING_OPERATOR: world.stack.ring('POSTERN_SIGNING_OPERATOR'),
      POSTERN_ASSERTION_KEYS: world.stack.database.assertionKeys,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    child,
    errors: () => errors,
    next: async () => auditEventSchema.parse(JSON.parse((await lines.next()).value ?? '')),
  }
}

test('an unknown tenant, outcome and position are refused', async () => {
  expect((await world.postern(['audit', 'tail', '--tenant', 'nobody'])).code).toBe(4)
  const tenant = ['--tenant', world.tenant.slug]
  expect((await world.postern(['audit', 'list', ...tenant, '--outcome', 'perhaps'])).code).toBe(3)
  expect((await world.postern(['audit', 'list', ...tenant, '--since', 'yesterday'])).code).toBe(2)
  expect(await world.postern(['audit', 'tail', ...tenant, '--since', 'yesterday'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--since must be the `position` of an event'),
  })
  const foreign = `1.${world.other.id}`
  expect(await world.postern(['audit', 'tail', ...tenant, '--since', foreign])).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('no longer has the event'),
  })
})

test('the feed is printed as lines, continues behind a position, and can be filtered', async () => {
  const { id } = await world.createKey()
  await world.createKey('--tenant', world.other.slug)
  const tail = ['audit', 'tail', '--tenant', world.tenant.slug]
  const all = parseLines((await world.postern(tail)).stdout)
  const created = all.filter(({ action }) => action === 'key.created')
  expect(created).toMatchObject([{ resource_id: id, actor_type: 'operator' }])
  const last = all.at(-1)?.position ?? ''
  expect((await world.postern([...tail, '--since', last])).stdout).toBe('')
  const listed = await world.postern(['audit', 'list', '--tenant', world.tenant.slug, '--resource', id])
  expect(listed.stdout).toMatch(/key\.created +success +operator +made-by-a-test/)
})

test('a follower gets later events, and SIGINT or a closed pipe ends it without an error', async () => {
  const { id } = await world.createKey()
  const tail = follow('--resource', id)
  expect(await tail.next()).toMatchObject({ action: 'key.created' })
  await world.postern(['keys', 'revoke', id])
  expect(await tail.next()).toMatchObject({ action: 'key.revoked', resource_id: id })
  tail.child.kill('SIGINT')
  expect(await once(tail.child, 'exit')).toEqual([0, null])
  expect(tail.errors()).toBe('')

  const cut = follow()
  await cut.next()
  cut.child.stdout.destroy()
  await world.createKey()
  expect(await once(cut.child, 'exit')).toEqual([0, null])
  expect(cut.errors()).toBe('')
})
