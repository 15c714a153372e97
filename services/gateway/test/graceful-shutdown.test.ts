import { connect } from 'node:net'
import { generateKey } from '@postern/api-key'
import { expect, test } from 'vitest'
import { keyRecord } from './builders.ts'
import { startTestGateway } from './gateway.ts'

test('a stopping gateway reports usage and returns its lease, even while a body arrives', async () => {
  const gateway = await startTestGateway({}, { answersWithinMs: 50 })
  const { value, hash } = generateKey()
  gateway.keys.records.set(hash, keyRecord({ hash, scopes: ['*'], expiresAt: Date.now() + 86_400_000 }))
  await gateway.untilReady()
  expect((await gateway.get('/api/v1/findings', value)).status).toBe(200)
  const sender = connect(gateway.port, '127.0.0.1')
  sender.on('error', () => undefined).resume()
  sender.write(
    `POST /api/v1/evidence?file_name=a.txt HTTP/1.1\r\nHost: x\r\nAuthorization: ApiKey ${value}\r\nTransfer-Encoding: chunked\r\n\r\n`,
  )
  const dripping = setInterval(() => sender.write(`1000\r\n${'x'.repeat(4096)}\r\n`), 20)
  await expect.poll(() => gateway.arrived()).toBe(2)
  const cut = new Promise<void>((resolve) => void sender.once('close', () => resolve()))
  await Promise.all([cut, gateway.close()])
  clearInterval(dripping)
  expect(gateway.keys.hasLeaseBack).toBe(true)
  expect(gateway.keys.reports.flatMap(({ uses }) => uses ?? [])).toMatchObject([{ count: expect.any(Number) }])
  expect(gateway.log.join('')).toContain('requests_cut_off')
})
