import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { closeAfterEach, expectReceived, mebibyte, open, startBoth } from './forwarding.ts'

closeAfterEach()

describe('a request body', () => {
  test('is streamed: the service has its first part before the client has sent the last', async () => {
    const first = Promise.withResolvers<string>()
    const { port } = await startBoth((request, response) => {
      request.once('data', (chunk: Buffer) => first.resolve(chunk.toString()))
      request.once('end', () => response.end('thanks'))
    })
    const client = await open(port)
    client.socket.write('POST /thing HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nfirst')
    expect(await first.promise).toBe('first')
    client.socket.write('last')
    await expectReceived(client, 'thanks')
  })

  test('of unknown length arrives chunked and whole, also when it is all there before it is sent', async () => {
    const { port } = await startBoth((request, response) => {
      void text(request).then((body) => response.end(`${request.headers['transfer-encoding']}:${body}`))
    })
    const client = await open(port)
    client.socket.write('POST /thing HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n')
    await expectReceived(client, ':abc')
    expect(client.received()).toContain('chunked:abc')
  })

  test('that exceeds its limit gets 413, and never reaches the service completely', async () => {
    const ends: string[] = []
    const { port, outcome } = await startBoth(
      (request) => {
        request.on('error', () => ends.push('broken'))
        request.once('end', () => ends.push('whole'))
        request.resume()
      },
      { maxBodyBytes: 4 },
    )
    const client = await open(port)
    client.socket.write('POST /thing HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n')
    await expectReceived(client, 'content_too_large')
    expect(client.received()).toMatch(/^HTTP\/1\.1 413 /)
    expect(ends).not.toContain('whole')
    expect(await outcome).toEqual({ status: 413, failures: [] })
    // The connection is still good: what followed was read to its end.
    client.socket.write('GET /refused HTTP/1.1\r\nhost: a\r\n\r\n')
    await expectReceived(client, 'missing_credentials')
  })

  test('with empty chunks gets 400, and does not count as a failure of the service', async () => {
    const { port, outcome } = await startBoth((request, response) => {
      request.on('error', () => undefined)
      request.once('end', () => response.end())
      request.resume()
    })
    const client = await open(port)
    client.socket.write('POST /thing HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n')
    await expectReceived(client, 'The body is empty')
    expect(await outcome).toEqual({ status: 400, failures: [] })
  })

  test('that the client aborts is aborted at the service, and does not count as its failure', async () => {
    const broken = Promise.withResolvers<boolean>()
    const { port, outcome } = await startBoth((request) => {
      request.on('error', () => undefined)
      request.once('close', () => broken.resolve(request.complete))
      request.resume()
    })
    const client = await open(port)
    client.socket.write('POST /thing HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nfirst')
    await new Promise((resolve) => setImmediate(resolve))
    client.socket.destroy()
    expect(await broken.promise).toBe(false)
    expect(await outcome).toEqual({ status: 0, failures: [] })
  })

  test('is requested with 100 Continue once the request is accepted', async () => {
    const { port } = await startBoth((request, response) => {
      void text(request).then((body) => response.end(`got ${body}`))
    })
    const client = await open(port)
    client.socket.write('POST /thing HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n')
    await expectReceived(client, 'HTTP/1.1 100 Continue\r\n\r\n')
    client.socket.write('body')
    await expectReceived(client, 'got body')
  })

  test('is not requested if the request is rejected, and the connection ends with the response', async () => {
    const { port, attempts } = await startBoth((_request, response) => response.end())
    const client = await open(port)
    client.socket.write('POST /refused HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n')
    await client.closed
    expect(client.received()).toMatch(/^HTTP\/1\.1 401 /)
    expect(client.received()).toMatch(/connection: close/i)
    expect(attempts()).toBe(0)
  })

  test('that the service refuses early: the client has the answer while it is still sending', async () => {
    const { port, outcome } = await startBoth((request, response) => {
      request.on('error', () => undefined)
      response.writeHead(413).end('too much')
    })
    const client = await open(port)
    client.socket.write(`POST /thing HTTP/1.1\r\nhost: a\r\ncontent-length: ${32 * mebibyte}\r\n\r\n`)
    client.socket.write(Buffer.alloc(256 * 1024))
    await expectReceived(client, 'too much')
    expect(client.received()).toMatch(/^HTTP\/1\.1 413 [^]*connection: close\r\n/i)
    expect((await outcome).status).toBe(413)
    // Which does not wait for it to have sent all.
    await client.closed
  })

  test.each([
    ['before it is read, of known length', '/refused', `content-length: ${16 * mebibyte}`, 401],
    ['by the service, of known length', '/thing', `content-length: ${16 * mebibyte}`, 413],
    ['by the service, in chunks', '/thing', 'transfer-encoding: chunked', 413],
    ['as too large, in chunks', '/large', 'transfer-encoding: chunked', 413],
  ])(
    'that is rejected %s: a client that sends all of it before reading gets the response',
    async (_how, path, framing, status) => {
      const { port } = await startBoth(
        (request, response) => {
          request.on('error', () => undefined)
          if (request.url === '/thing') response.writeHead(413, { 'content-length': 8 }).end('too much')
          else request.resume()
        },
        path === '/large' ? { maxBodyBytes: mebibyte } : {},
      )
      const client = await open(port)
      client.socket.pause()
      client.socket.write(`POST ${path} HTTP/1.1\r\nhost: a\r\n${framing}\r\n\r\n`)
      const bytes = Buffer.alloc(16 * mebibyte)
      if (framing.startsWith('content-length')) client.socket.write(bytes)
      else
        client.socket.write(
          Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n0\r\n\r\n')]),
        )
      // A request that is hidden behind it is not taken up: the answer was the last.
      client.socket.write('GET /refused HTTP/1.1\r\nhost: a\r\n\r\n')
      while (client.socket.writableLength > 0) await once(client.socket, 'drain')
      client.socket.resume()
      await once(client.socket, 'end')
      expect(client.received()).toMatch(new RegExp(`^HTTP/1.1 ${status} [^]*connection: close\r\n`, 'i'))
      expect(client.received().match(/HTTP\/1/g)).toHaveLength(1)
    },
  )

  test('that is refused and never ends closes the connection', async () => {
    const { port } = await startBoth((_request, response) => response.end())
    const client = await open(port)
    client.socket.write('POST /refused HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n')
    const mebi = Buffer.concat([Buffer.from('100000\r\n'), Buffer.alloc(mebibyte), Buffer.from('\r\n')])
    let sent = 0
    while (client.socket.writable) {
      sent += 1
      const drained = new Promise((resolve) => client.socket.once('drain', resolve))
      if (!client.socket.write(mebi)) await Promise.race([drained, client.closed])
    }
    await client.closed
    expect(sent).toBeGreaterThan(64)
    // And what was on its way.
    expect(sent).toBeLessThan(128)
  })

  test('that is refused is no failure to fetch, however much of it is left', async () => {
    const { port } = await startBoth((_request, response) => response.end())
    for (let round = 0; round < 3; round += 1) {
      const body = Buffer.alloc(16 * mebibyte)
      const answer = await fetch(`http://127.0.0.1:${port}/refused`, { method: 'POST', body })
      expect([answer.status, await answer.text()]).toEqual([401, expect.stringContaining('missing_credentials')])
    }
  })

  test('whose rest is short is read to its end after an early answer, so the connection lives on', async () => {
    const { port } = await startBoth((request, response) => {
      request.on('error', () => undefined)
      response.writeHead(409).end('conflict')
    })
    const client = await open(port)
    client.socket.write('POST /thing HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n')
    client.socket.write(Buffer.alloc(50_000, 'a'))
    await expectReceived(client, 'conflict')
    client.socket.write(Buffer.alloc(50_000, 'a'))
    client.socket.write('GET /refused HTTP/1.1\r\nhost: a\r\n\r\n')
    await expectReceived(client, 'missing_credentials')
  })

  test('of a refused request is read to its end, and is never taken for the next request', async () => {
    const { port, attempts } = await startBoth((_request, response) => response.end())
    const hidden = 'GET /hidden HTTP/1.1\r\nhost: a\r\n\r\n'
    const client = await open(port)
    client.socket.write(`POST /refused HTTP/1.1\r\nhost: a\r\ncontent-length: ${hidden.length}\r\n\r\n${hidden}`)
    await expectReceived(client, 'missing_credentials')
    client.socket.write('GET /thing HTTP/1.1\r\nhost: a\r\n\r\n')
    await expectReceived(client, 'HTTP/1.1 200 OK')
    expect(attempts()).toBe(1)
  })
})
