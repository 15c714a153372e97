import { once } from 'node:events'
import { connect } from 'node:net'
import { patience, randomRing } from '@postern/local-stack/testing'
import { expect, onTestFinished, test } from 'vitest'
import { startConsole } from '../src/service.ts'

async function start(extra: Readonly<Record<string, string>>): Promise<number> {
  const env = {
    POSTERN_PORT: '0',
    POSTERN_CONSOLE_URL: 'https://console.example',
    POSTERN_GATEWAY_URL: 'http://127.0.0.1:9',
    POSTERN_REDIS_URL: 'redis://127.0.0.1:9',
    POSTERN_CONSOLE_SESSION: randomRing(),
    ...patience,
    ...extra,
  }
  const running = await startConsole(env, { writeLog: () => undefined })
  onTestFinished(async () => await running.close())
  return running.port
}

/** A connection that has been answered once and is idle now. */
async function visit(port: number) {
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  socket.write('GET /favicon.svg HTTP/1.1\r\nHost: a\r\n\r\n')
  const [answer] = await once(socket, 'data')
  socket.resume()
  return { socket, answer: String(answer) }
}

test('an idle connection of a browser is closed after POSTERN_KEEP_ALIVE_MS, and stays open for longer than load balancers keep theirs without it', async () => {
  const [usual, brief] = [await start({}), await start({ POSTERN_KEEP_ALIVE_MS: '1000' })]
  const [patient, hasty] = [await visit(usual), await visit(brief)]
  expect(patient.answer).toMatch(/\r\nkeep-alive: timeout=620\r\n/i)
  expect(hasty.answer).toMatch(/\r\nkeep-alive: timeout=1\r\n/i)
  await once(hasty.socket, 'close')
  expect(patient.socket.closed).toBe(false)
})
