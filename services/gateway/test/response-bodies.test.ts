import { Agent, type IncomingMessage, request as httpRequest } from 'node:http'
import { buffer, text } from 'node:stream/consumers'
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { ask, closeAfterEach, expectReceived, get, mebibyte, open, startBoth } from './forwarding.ts'

closeAfterEach()

describe('an answer', () => {
  test('asks to close the connection if the process has begun to drain, not before', async () => {
    let draining = false
    let asked = 0
    const { port } = await startBoth(
      (_request, response) => {
        asked += 1
        draining = asked === 2
        response.end('{}')
      },
      { isDraining: () => draining },
    )
    const connectionOf = async (): Promise<string | undefined> => {
      const agent = new Agent({ keepAlive: true })
      const answered = Promise.withResolvers<IncomingMessage>()
      httpRequest({ host: '127.0.0.1', port, path: '/thing', agent }, answered.resolve).end()
      const answer = await answered.promise
      await text(answer)
      agent.destroy()
      return answer.headers.connection
    }
    expect(await connectionOf()).toBe('keep-alive')
    expect(await connectionOf()).toBe('close')
  })

  test('keeps status, body and headers, without those that end at the gateway', async () => {
    const { port, outcome } = await startBoth(
      (_request, response) =>
        response
          .writeHead(
            201,
            [
              ['location', '/thing/1'],
              ['link', '<a>'],
              ['link', '<b>'],
              ['x-request-id', 'of-the-service'],
              ['server', 'inner'],
              ['ratelimit', 'inner'],
              ['postern-assertion', 'v1.secret'],
              ['set-cookie', 'a=b'],
              ['www-authenticate', 'Basic'],
              ['alt-svc', 'h3=":443"'],
              ['access-control-allow-origin', '*'],
              ['signature', 'sig1=:AA==:'],
              ['x-key-expires-at', 'never'],
              ['x-anything', 'new'],
              ['x-own', 'a'],
              ['content-language', 'de'],
              ['connection', 'x-own, content-language'],
            ].flat(),
          )
          .end('made'),
      { answerHeaders: ['ratelimit', '"caller";r=1;t=2'] },
    )
    const answer = await get(port)
    expect(answer).toMatchObject({ status: 201, text: 'made' })
    expect(answer.headers).toMatchObject({
      location: '/thing/1',
      link: '<a>, <b>',
      'x-request-id': 'request-id-1',
      ratelimit: '"caller";r=1;t=2',
      'cache-control': 'no-store',
    })
    const names = [
      'server',
      'postern-assertion',
      'set-cookie',
      'www-authenticate',
      'alt-svc',
      'signature',
      'x-anything',
    ]
    for (const name of [...names, 'access-control-allow-origin', 'x-key-expires-at', 'x-own', 'content-language']) {
      expect(answer.headers).not.toHaveProperty(name)
    }
    expect(await outcome).toEqual({ status: 201, failures: [] })
  })

  test('to HEAD has the length of the body and no body', async () => {
    const { port } = await startBoth((_request, response) => response.writeHead(200, { 'content-length': '5' }).end())
    const answer = await get(port, 'HEAD')
    expect(answer).toMatchObject({ status: 200, text: '' })
    expect(answer.headers['content-length']).toBe('5')
  })

  test('with a 1xx status is not forwarded to the client', async () => {
    const { port } = await startBoth((_request, response) => {
      response.writeEarlyHints({ link: '</style>; rel=preload' })
      response.end('final')
    })
    const client = await open(port)
    client.socket.write('GET /thing HTTP/1.1\r\nhost: a\r\n\r\n')
    await expectReceived(client, 'final')
    expect(client.received()).not.toContain('103')
    expect(client.received()).toMatch(/^HTTP\/1\.1 200 OK/)
  })

  test('is streamed: the first part arrives before the service has sent the last', async () => {
    let finish: (() => void) | undefined
    const { port } = await startBoth((_request, response) => {
      response.write('first')
      finish = () => void response.end('last')
    })
    const client = await open(port)
    client.socket.write('GET /thing HTTP/1.1\r\nhost: a\r\n\r\n')
    await expectReceived(client, 'first')
    finish?.()
    await expectReceived(client, 'last')
  })

  test('that the client does not read pauses the service, and arrives completely once the client reads', async () => {
    const size = 64 * mebibyte
    let written = 0
    const { promise: isStopped, resolve: stopped } = Promise.withResolvers<void>()
    const { port } = await startBoth((_request, response) => {
      response.writeHead(200, { 'content-length': String(size) })
      const chunk = Buffer.alloc(64 * 1024)
      const more = (): void => {
        while (written < size) {
          written += chunk.length
          if (!response.write(chunk)) {
            const idle = setTimeout(stopped, 300)
            response.once('drain', () => {
              clearTimeout(idle)
              more()
            })
            return
          }
        }
        response.end()
      }
      more()
    })
    const answer = await ask(port)
    await isStopped
    expect(written).toBeLessThan(size)
    expect((await buffer(answer)).length).toBe(size)
  })

  test('that the client does not read for a minute is cut, and does not count as a failure of the service', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const { port, outcome } = await startBoth(
      (_request, response) => {
        const chunk = Buffer.alloc(64 * 1024, 'x')
        const more = (): void => {
          while (response.writable && response.write(chunk));
        }
        response.on('drain', more)
        more()
      },
      { answerWithinMs: 3_600_000 },
    )
    const answer = await ask(port)
    answer.on('error', () => undefined)
    let ended: Awaited<typeof outcome> | undefined
    void outcome.then((result) => (ended = result))
    await expect
      .poll(() => {
        vi.advanceTimersByTime(60_000)
        return ended
      })
      .toEqual({ status: 200, failures: [] })
  })

  test('is aborted at the service if the client disconnects', async () => {
    const closed = Promise.withResolvers<void>()
    const { port, outcome } = await startBoth((_request, response) => {
      response.write('first')
      response.once('close', closed.resolve)
    })
    const client = await open(port)
    client.socket.write('GET /thing HTTP/1.1\r\nhost: a\r\n\r\n')
    await expectReceived(client, 'first')
    client.socket.destroy()
    await closed.promise
    expect(await outcome).toEqual({ status: 0, failures: [] })
  })
})

describe('connections to a service', () => {
  let release: (() => void)[]
  beforeEach(() => {
    release = []
  })

  test('a client that leaves while it waits for one is never sent to the service', async () => {
    const paths: (string | undefined)[] = []
    const { port, outcome, handled } = await startBoth(
      (request, response) => {
        paths.push(request.url)
        release.push(() => response.end('done'))
      },
      { connections: 1 },
    )
    const first = await open(port)
    first.socket.write('GET /first HTTP/1.1\r\nhost: a\r\n\r\n')
    while (release.length < 1) await new Promise((resolve) => setImmediate(resolve))
    const second = await open(port)
    second.socket.write('GET /second HTTP/1.1\r\nhost: a\r\n\r\n')
    while (handled() < 2) await new Promise((resolve) => setImmediate(resolve))
    second.socket.destroy()
    // Of the two that are under way this one ends first: the gateway knows that its client has gone.
    expect(await outcome).toMatchObject({ status: 0 })
    release[0]?.()
    await expectReceived(first, 'done')
    const third = await open(port)
    third.socket.write('GET /third HTTP/1.1\r\nhost: a\r\n\r\n')
    while (release.length < 2) await new Promise((resolve) => setImmediate(resolve))
    release[1]?.()
    await expectReceived(third, 'done')
    expect(paths).toEqual(['/first', '/third'])
  })
})
