import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { ask, closeAfterEach, deadPort, get, startBoth, startGateway } from './forwarding.ts'

closeAfterEach()

describe('a service that fails', () => {
  test('that cannot be reached: 503 with Retry-After, the request had no effect', async () => {
    const { port, outcome } = await startGateway(await deadPort())
    const answer = await get(port)
    expect(answer.status).toBe(503)
    expect(answer.headers['retry-after']).toBe('1')
    expect(JSON.parse(answer.text)).toMatchObject({
      code: 'service_unavailable',
      detail: expect.stringContaining('The request had no effect'),
    })
    expect(answer.text).not.toContain('127.0.0.1')
    expect((await outcome).failures).toHaveLength(1)
  })

  test('that breaks the connection before it responds: 502 after one attempt', async () => {
    const { port, attempts } = await startBoth((request) => request.socket.destroy())
    const answer = await get(port)
    expect(answer.status).toBe(502)
    expect(JSON.parse(answer.text)).toMatchObject({ code: 'bad_gateway' })
    expect(attempts()).toBe(1)
  })

  test('that is silent: 504 after one attempt', async () => {
    const { port, attempts } = await startBoth(() => undefined, { answerWithinMs: 100 })
    const answer = await get(port)
    expect(answer.status).toBe(504)
    expect(attempts()).toBe(1)
  })

  test('that responds with 503: its response is forwarded after one attempt', async () => {
    const { port, attempts } = await startBoth((_request, response) =>
      response.writeHead(503, { 'retry-after': '7' }).end('later'),
    )
    const answer = await get(port)
    expect(answer).toMatchObject({ status: 503, text: 'later' })
    expect(answer.headers['retry-after']).toBe('7')
    expect(attempts()).toBe(1)
  })

  test('that breaks off within its answer leaves the client with a broken answer, never a short one', async () => {
    const { port, outcome } = await startBoth((request, response) => {
      response.write('half', () => request.socket.destroy())
    })
    const answer = await ask(port)
    await expect(text(answer)).rejects.toThrow('aborted')
    expect((await outcome).failures).toHaveLength(1)
  })

  test('that answers 401 has refused the gateway, not the client: 503', async () => {
    const { port } = await startBoth((_request, response) => response.writeHead(401).end('{"code":"unsigned_request"}'))
    const answer = await get(port)
    expect(answer.status).toBe(503)
    expect(answer.text).not.toContain('unsigned_request')
  })
})
