import { type Server, createServer } from 'node:http'
import { createLogger } from '@postern/service-kit'
import { afterEach, expect, test } from 'vitest'
import { DatabasesDifferError, createSharedDatabaseCheck } from './shared-database.ts'

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) server.close()
})

/** A service whose readiness answers with this status and body. */
async function startReady(answer: { status: number; body: string }): Promise<string> {
  const server = createServer((_request, response) => response.writeHead(answer.status).end(answer.body))
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return `http://127.0.0.1:${address.port}`
}

const uses = (database: string) => ({ status: 200, body: JSON.stringify({ status: 'ok', database }) })

async function createCheck(answers: Record<string, { status: number; body: string }>) {
  const log: string[] = []
  const urls: Record<string, string> = {}
  for (const [name, answer] of Object.entries(answers)) urls[name] = await startReady(answer)
  const logger = createLogger({ service: 'gateway', level: 'info', write: (line) => void log.push(line) })
  return { check: createSharedDatabaseCheck(urls, logger), log }
}

test('services with different databases make the gateway not ready, and the log names each of them once', async () => {
  const { check, log } = await createCheck({ keys: uses('a'), sync: uses('b'), findings: uses('a') })
  await check.refresh()
  await check.refresh()
  expect(() => check.assertShared()).toThrow(DatabasesDifferError)
  expect(log.map((line): unknown => JSON.parse(line))).toMatchObject([
    { event: 'databases_differ', databases: { keys: 'a', sync: 'b', findings: 'a' } },
  ])
})

test('the gateway becomes ready again once all services report one database', async () => {
  const sync = uses('b')
  const { check, log } = await createCheck({ keys: uses('a'), sync })
  await check.refresh()
  expect(() => check.assertShared()).toThrow(DatabasesDifferError)
  sync.body = uses('a').body
  await check.refresh()
  expect(() => check.assertShared()).not.toThrow()
  expect(log.at(-1)).toContain('databases_shared')
})

test.each([
  ['is not ready', { status: 503, body: '{"status":"unavailable"}' }],
  ['may not read its database', { status: 200, body: '{"status":"ok"}' }],
  ['answers with something else', { status: 200, body: '<html>' }],
])('a service that %s does not make the gateway unready', async (_what, answer) => {
  const { check, log } = await createCheck({ keys: uses('a'), sync: answer })
  await check.refresh()
  expect(() => check.assertShared()).not.toThrow()
  expect(log).toEqual([])
})
