import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestGateway, startTestGateway } from './gateway.ts'

let brief: TestGateway
let usual: TestGateway

beforeAll(async () => {
  brief = await startTestGateway({ POSTERN_KEEP_ALIVE_MS: '1000' })
  usual = await startTestGateway()
})

afterAll(async () => {
  await brief.close()
  await usual.close()
})

/** A connection that has been answered once and is idle now. */
async function visit({ port }: TestGateway) {
  const socket = connect(port, '127.0.0.1')
  socket.write('GET /problems/not-found HTTP/1.1\r\nHost: a\r\n\r\n')
  const [answer] = await once(socket, 'data')
  socket.resume()
  return { socket, answer: String(answer) }
}

test('an idle connection is closed after POSTERN_KEEP_ALIVE_MS, by default later than load balancers close theirs', async () => {
  const [patient, hasty] = [await visit(usual), await visit(brief)]
  expect(patient.answer).toMatch(/\r\nkeep-alive: timeout=620\r\n/i)
  expect(hasty.answer).toMatch(/\r\nkeep-alive: timeout=1\r\n/i)
  await once(hasty.socket, 'close')
  expect(patient.socket.closed).toBe(false)
  patient.socket.destroy()
})
