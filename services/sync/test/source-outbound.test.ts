/**
 * @promise Edge: Sources of connectors cannot reach internal networks (SSRF).
 */

import { once } from 'node:events'
import { createServer } from 'node:net'
import { Readable, pipeline } from 'node:stream'
import { createGzip, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { readConfig } from '../src/config.ts'
import { createAddressPolicy } from '../src/outbound/address-policy.ts'
import { type Lookup, openOutbound } from '../src/outbound/open-outbound.ts'
import {
  type Answers,
  type SourceServer,
  makeCertificate,
  startSourceServer,
  startTlsSourceServer,
} from './source-server.ts'
import { failureOf, readSource } from './source-support.ts'

const answers: Answers = {}
let server: SourceServer
let tlsServer: SourceServer
let certificate: { key: string; cert: string }

beforeAll(async () => {
  certificate = await makeCertificate(['source.test'])
  server = await startSourceServer(answers)
  tlsServer = await startTlsSourceServer(answers, certificate)
})
afterAll(async () => {
  await server.close()
  await tlsServer.close()
})
beforeEach(() => {
  server.asked.length = 0
  tlsServer.asked.length = 0
  for (const path of Object.keys(answers)) delete answers[path]
  answers['/list.csv'] = (_, response) => response.end('id\n1\n')
})

const rows = [{ kind: 'row', row: 2, values: { id: '1' } }]
/** This machine, as a network that the platform lists. */
const here = openOutbound({ networks: ['127.0.0.1'] })

/** Names lead where the test says, and no name leads anywhere else. */
function leading(hosts: Readonly<Record<string, readonly string[]>>, networks: readonly string[] = []) {
  const asked: string[] = []
  const lookup: Lookup = async (host) => {
    asked.push(host)
    return (hosts[host] ?? []).map((address) => ({ address }))
  }
  return { outbound: openOutbound({ networks, lookup }), asked }
}

async function fetchCsv(url: string, outbound = here, config: object = {}) {
  return await readSource('csv', { config: { url, ...config }, outbound })
}

async function refusal(url: string, outbound = here, config: object = {}) {
  return (await failureOf('csv', { config: { url, ...config }, outbound })).code
}

describe('an address that the platform has not listed', () => {
  test.each([
    ['private', ['10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', 'fc00::1', 'fd12:3456::1']],
    ['loopback', ['127.0.0.1', '127.255.255.254', '::1']],
    ['link-local', ['169.254.0.1', 'fe80::1', 'fe80::1%eth0']],
    ['that of metadata', ['169.254.169.254', 'fd00:ec2::254', '100.100.100.200', '168.63.129.16', '::ffff:a83f:8110']],
    ['unspecified, broadcast or multicast', ['0.0.0.0', '0.1.2.3', '255.255.255.255', '224.0.0.1', 'ff02::1', '::']],
    [
      'shared, reserved or for documents',
      ['100.64.0.1', '192.0.0.1', '198.18.0.1', '203.0.113.1', '240.0.0.1', '2001:db8::1'],
    ],
    [
      'IPv4 in IPv6',
      ['::ffff:127.0.0.1', '::ffff:a00:1', '64:ff9b::7f00:1', '2002:7f00:1::', '::127.0.0.1', '2001::1'],
    ],
    ['none', ['', 'localhost', '127.1', '2130706433', '1.2.3.4.5']],
  ])('is not connected to when it is %s', (_, addresses) => {
    const { mayConnect } = createAddressPolicy([])
    for (const address of addresses) expect(mayConnect(address), address).toBe(false)
  })

  test('is connected to when it is a public one', () => {
    const { mayConnect, isListed } = createAddressPolicy([])
    for (const address of ['1.1.1.1', '93.184.216.34', '168.63.129.17', '2606:4700:4700::1111', '::ffff:1.1.1.1']) {
      expect(mayConnect(address), address).toBe(true)
      expect(isListed(address), address).toBe(false)
    }
  })

  test('is connected to once it is listed, in any of its spellings, and its neighbours are not', () => {
    const { mayConnect } = createAddressPolicy(['10.1.0.0/16', '127.0.0.1', 'fd00:1::/32'])
    for (const address of ['10.1.2.3', '::ffff:10.1.2.3', '127.0.0.1', 'fd00:1::5']) {
      expect(mayConnect(address), address).toBe(true)
    }
    for (const address of ['10.2.0.1', '127.0.0.2', 'fd00:2::5', '::1'])
      expect(mayConnect(address), address).toBe(false)
  })

  test.each(['010.1.0.0/16', '0xa.1.0.0/16', '10.1/16', '167837953', '10.1.0.0/33', 'anything'])(
    'is not listed by an ambiguous or invalid network: %s',
    (network) => {
      expect(() => createAddressPolicy([network])).toThrow(/is not a valid range/)
      expect(() => readConfig({ POSTERN_SYNC_NETWORKS: `10.1.0.0/16,${network}` })).toThrow(/POSTERN_SYNC_NETWORKS/)
      expect(() => readConfig({ POSTERN_SYNC_NETWORKS: '10.1.0.0/16,fd00:1::/32' })).not.toThrow(
        /POSTERN_SYNC_NETWORKS/,
      )
    },
  )

  test.each([
    '127.0.0.1',
    'localhost',
    '2130706433',
    '0x7f.1',
    '017700000001',
    '127.1',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
  ])('is refused when a URL names it %s', async (host) => {
    const url = `http://${host}:${server.port}/list.csv`
    expect(await refusal(url, openOutbound({ networks: [] }))).toBe('address_not_allowed')
    expect(server.asked).toEqual([])
    expect(await fetchCsv(url, openOutbound({ networks: ['127.0.0.1', '::1'] }))).toEqual(rows)
  })

  test('is rejected when a name resolves to it, also as one address of several', async () => {
    const { outbound } = leading({ 'inside.test': ['169.254.169.254'], 'mixed.test': ['1.1.1.1', '10.0.0.5'] })
    expect(await refusal('https://inside.test/latest/meta-data', outbound)).toBe('address_not_allowed')
    expect(await refusal('https://mixed.test/', outbound)).toBe('address_not_allowed')
    const failure = await failureOf('csv', { config: { url: 'https://inside.test/' }, outbound })
    expect(failure.message).not.toContain('169.254')
  })

  test('is rejected when a redirect leads to it', async () => {
    for (const host of ['169.254.169.254', '[::1]', '127.0.0.2', '2130706434', '[::ffff:127.0.0.2]']) {
      answers['/away'] = (_, response) =>
        response.writeHead(302, { location: `http://${host}:${server.port}/list.csv` }).end()
      expect(await refusal(`${server.url}/away`), host).toBe('address_not_allowed')
    }
    expect(new Set(server.asked)).toEqual(new Set(['/away']))
    answers['/near'] = (_, response) => response.writeHead(302, { location: '/list.csv' }).end()
    expect(await fetchCsv(`${server.url}/near`)).toEqual(rows)
  })

  test('is rejected when a name resolves to it later', async () => {
    let times = 0
    const lookup: Lookup = async () => [{ address: times++ === 0 ? '127.0.0.1' : '127.0.0.2' }]
    const rebinding = openOutbound({ networks: ['127.0.0.1'], lookup })
    const url = `http://rebinding.test:${server.port}/list.csv`
    // One look-up a connection, and the connection goes to what it gave: there is no second that could give another.
    expect(await fetchCsv(url, rebinding)).toEqual(rows)
    expect(times).toBe(1)
    expect(await refusal(url, rebinding)).toBe('address_not_allowed')
    expect(server.asked).toHaveLength(1)
  })
})

describe('a request to a source is sent', () => {
  test('without encryption only at an address that is listed', async () => {
    const { outbound } = leading({ 'public.test': ['1.1.1.1'] })
    expect(await refusal('http://public.test/list.csv', outbound)).toBe('not_encrypted')
  })

  test('only where its certificate is trusted and names it', async () => {
    const { outbound } = leading({ 'source.test': ['127.0.0.1'], 'other.test': ['127.0.0.1'] }, ['127.0.0.1'])
    const at = (host: string): string => `https://${host}:${tlsServer.port}/list.csv`
    expect(await refusal(at('source.test'), outbound)).toBe('certificate_not_trusted')
    expect(await refusal(at('other.test'), outbound, { ca: certificate.cert })).toBe('certificate_not_trusted')
    expect(tlsServer.asked).toEqual([])
    expect(await fetchCsv(at('source.test'), outbound, { ca: certificate.cert })).toEqual(rows)
    expect(await fetchCsv(at('127.0.0.1'), outbound, { ca: certificate.cert })).toEqual(rows)
  })

  test('with a clear error if it speaks neither TLS nor HTTP', async () => {
    const { outbound } = leading({ 'source.test': ['127.0.0.1'] }, ['127.0.0.1'])
    const plain = await failureOf('csv', { config: { url: `https://source.test:${server.port}/list.csv` }, outbound })
    expect(plain).toMatchObject({ code: 'not_encrypted', retryable: false })
    expect(plain.message).toContain('does not speak TLS')
    const languages = [
      'SSH-2.0-OpenSSH_9.6\r\n',
      '220 mail.test ESMTP\r\n',
      '<html>',
      '\u0015\u0003\u0003\0\u0002\u0002\u000a',
    ]
    for (const said of languages) {
      const other = createServer((socket) => {
        socket.on('error', () => undefined).once('data', () => socket.end(said))
      }).listen(0, '127.0.0.1')
      await once(other, 'listening')
      const address = other.address()
      const at = `source.test:${typeof address === 'object' ? address?.port : 0}/list.csv`
      const failure = await failureOf('csv', { config: { url: `http://${at}` }, outbound })
      expect(failure, said).toMatchObject({ code: 'answer_broken', retryable: false })
      expect(failure.message).toContain('does not speak HTTP')
      const code = said.startsWith('\u0015') ? 'answer_broken' : 'not_encrypted'
      expect(await failureOf('csv', { config: { url: `https://${at}` }, outbound }), said).toMatchObject({
        code,
        retryable: false,
      })
      other.close()
    }
  })

  test('with its credentials, which no other origin gets, nor one without encryption', async () => {
    const { outbound } = leading({ 'source.test': ['127.0.0.1'] }, ['127.0.0.1'])
    const seen: (string | undefined)[] = []
    answers['/list.csv'] = ({ headers }, response) => {
      seen.push(headers.authorization)
      response.end('id\n1\n')
    }
    const read = async (path: string) => {
      const config = {
        url: `https://source.test:${tlsServer.port}${path}`,
        auth: { kind: 'bearer' },
        ca: certificate.cert,
      }
      return await readSource('csv', { config, secrets: { token: 'a-secret-token' }, outbound })
    }
    expect(await read('/list.csv')).toEqual(rows)
    answers['/elsewhere'] = (_, response) =>
      response.writeHead(307, { location: `https://127.0.0.1:${tlsServer.port}/list.csv` }).end()
    expect(await read('/elsewhere')).toEqual(rows)
    expect(seen).toEqual(['Bearer a-secret-token', undefined])
    answers['/plain'] = (_, response) => response.writeHead(301, { location: `${server.url}/list.csv` }).end()
    await expect(read('/plain')).rejects.toMatchObject({ code: 'not_encrypted' })
    expect(seen).toHaveLength(2)
  })

  test('a limited number of times if it redirects without end', async () => {
    answers['/round'] = (_, response) => response.writeHead(302, { location: '/round' }).end()
    expect(await refusal(`${server.url}/round`)).toBe('redirects_endless')
    expect(server.asked).toHaveLength(6)
  })

  test('only over http and https', async () => {
    answers['/file'] = (_, response) => response.writeHead(302, { location: 'file:///etc/passwd' }).end()
    expect(await refusal(`${server.url}/file`)).toBe('address_invalid')
    await expect(fetchCsv('ftp://127.0.0.1/list.csv')).rejects.toThrow('https URL')
    await expect(fetchCsv('https://user:word@127.0.0.1/')).rejects.toThrow('without a user')
  })

  test('only with the secret that it needs', async () => {
    expect(await refusal(`${server.url}/list.csv`, here, { auth: { kind: 'bearer' } })).toBe('secret_missing')
    expect(server.asked).toEqual([])
  })
})

/** The same piece again and again. */
function* endless(piece: Buffer): Generator<Buffer> {
  for (;;) yield piece
}

describe('an answer', () => {
  test('that is too large is not read further, even as a few compressed bytes', async () => {
    const { promise: letGo, resolve } = Promise.withResolvers<void>()
    answers['/bomb'] = (_, response) => {
      // Without an end: whoever wants all of it before it is counted waits for ever.
      const lines = Readable.from(endless(Buffer.alloc(100_000, `${'x'.repeat(1000)}\n`)))
      response.writeHead(200, { 'content-encoding': 'gzip' })
      pipeline(lines, createGzip(), response, () => resolve())
    }
    const limits = { maxBytes: 1_000_000 }
    const failure = await failureOf('csv', { config: { url: `${server.url}/bomb` }, limits, outbound: here })
    expect(failure.code).toBe('source_too_large')
    await letGo
    answers['/small'] = (_, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('id\n1\n'))
    expect(await fetchCsv(`${server.url}/small`)).toEqual(rows)
  })

  test('that is compressed twice, differently or incorrectly is rejected', async () => {
    answers['/twice'] = (_, response) => response.writeHead(200, { 'content-encoding': 'gzip, gzip' }).end('x')
    expect(await refusal(`${server.url}/twice`)).toBe('encoding_unknown')
    answers['/broken'] = (_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end('no gzip')
    expect(await refusal(`${server.url}/broken`)).toBe('answer_broken')
  })

  test('that stalls or never begins is cut, and can be retried', async () => {
    answers['/stalls'] = (_, response) => void response.write('id\n')
    answers['/never'] = () => undefined
    for (const path of ['/stalls', '/never']) {
      const limits = { maxSilenceMs: 50 }
      const failure = await failureOf('csv', { config: { url: `${server.url}${path}` }, limits, outbound: here })
      expect(failure, path).toMatchObject({ code: 'source_too_slow', retryable: true })
    }
  })

  test('that is too slow is cut at the time limit', async () => {
    answers['/drips'] = (_, response) => {
      response.write('id\n')
      const dripping = setInterval(() => response.write('1\n'), 10)
      response.once('close', () => clearInterval(dripping))
    }
    const limits = { maxDurationMs: 200 }
    const failure = await failureOf('csv', { config: { url: `${server.url}/drips` }, limits, outbound: here })
    expect(failure.code).toBe('source_too_slow')
  })

  test('that is cut off is a failure and not a shorter table', async () => {
    answers['/cut'] = (_, response) => {
      response.writeHead(200, { 'content-length': '100' })
      response.write('id\n1\n', () => response.destroy())
    }
    const failure = await failureOf('csv', { config: { url: `${server.url}/cut` }, outbound: here })
    expect(failure).toMatchObject({ code: 'source_cut_off', retryable: true })
  })

  test.each([
    [401, 'not_authorized', false],
    [403, 'not_authorized', false],
    [404, 'not_found', false],
    [418, 'answer_refused', false],
    [500, 'source_failing', true],
  ])('of status %i is %s', async (status, code, retryable) => {
    answers['/status'] = (_, response) => response.writeHead(status).end('id\n1\n')
    const failure = await failureOf('csv', { config: { url: `${server.url}/status` }, outbound: here })
    expect(failure).toMatchObject({ code, retryable })
    expect(server.asked).toHaveLength(1)
  })

  test('with Retry-After is requested again at that time, a limited number of times', async () => {
    answers['/busy'] = (_, response) => {
      if (server.asked.length < 3) response.writeHead(429, { 'retry-after': '0' }).end()
      else response.end('id\n1\n')
    }
    expect(await fetchCsv(`${server.url}/busy`)).toEqual(rows)
    answers['/always'] = (_, response) => response.writeHead(503, { 'retry-after': new Date(0).toUTCString() }).end()
    expect(await refusal(`${server.url}/always`)).toBe('source_failing')
    expect(server.asked).toHaveLength(3 + 5)
    answers['/tomorrow'] = (_, response) => response.writeHead(429, { 'retry-after': '86400' }).end()
    expect(await refusal(`${server.url}/tomorrow`)).toBe('source_throttles')
    expect(server.asked).toHaveLength(3 + 5 + 1)
  })

  test('that is a web page with status 200 is not a table', async () => {
    answers['/login'] = (_, response) => response.end('<!doctype html><title>Sign in</title>')
    expect(await refusal(`${server.url}/login`)).toBe('not_a_table')
  })
})
