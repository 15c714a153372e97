import { ConfigurationError } from '@postern/service-kit'
import { expect, test } from 'vitest'
import { readConfig } from './config.ts'

const ring = (id: string) => `${id}:${'A'.repeat(43)}`
const good = {
  POSTERN_DATABASE_URL: 'postgres://postern_sync:password@127.0.0.1:5432/postern',
  POSTERN_SIGNING_SYNC: ring('k1'),
  POSTERN_SIGNING_SYNC_UNIVERSE: ring('k2'),
  POSTERN_SIGNING_OPERATOR: ring('k3'),
  POSTERN_SYNC_SECRETS: ring('k4'),
  POSTERN_UNIVERSE_URL: 'http://127.0.0.1:8183',
}
const server = { POSTERN_SMTP_URL: 'smtp://postern:hunter2@mail.example:587' }

test('a mail server without a sender is rejected, without showing its password', () => {
  expect(() => readConfig({ ...good, ...server })).toThrow(ConfigurationError)
  expect(() => readConfig({ ...good, ...server })).toThrow(/POSTERN_SMTP_FROM(?!.*hunter2)/)
  expect(readConfig({ ...good, ...server, POSTERN_SMTP_FROM: 'audit@mail.example' }).mail).toEqual({
    url: server.POSTERN_SMTP_URL,
    from: 'audit@mail.example',
  })
  expect(readConfig(good).mail).toBeUndefined()
})
