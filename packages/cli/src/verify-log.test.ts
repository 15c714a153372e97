import { generateKeyPairSync, sign } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { checkpointType, emptyRoot, hashOf, nextRoot, sealEntry } from '@postern/log-chain'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { run } from './run.ts'

const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const day = '2026-11-20'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'postern-verify-log-'))
})
afterAll(async () => await rm(folder, { recursive: true, force: true }))

interface Entry extends Record<string, unknown> {
  readonly hash: string
}

/** Entries of one finding; their text holds a line separator that is no end of a line in NDJSON. */
function aLog(count: number, word = 'entry'): Entry[] {
  const log: Entry[] = []
  for (let seq = 1; seq <= count; seq += 1) {
    const content = {
      position: seq,
      seq,
      finding_id: 'a',
      prev_hash: log.at(-1)?.hash ?? null,
      body: `${word}\u2028${seq}`,
    }
    log.push({ ...content, hash: hashOf(sealEntry(content)) })
  }
  return log
}

const fitted = (entry: Entry): Entry => ({ ...entry, hash: hashOf(sealEntry(entry)) })
const rootOf = (log: readonly Entry[]) => log.reduce((root, { hash }) => nextRoot(root, hash), emptyRoot)

const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** The answer that the API gives when it is asked for a checkpoint at this end of the log. */
function checkpoint(log: readonly Entry[]) {
  const position = log.length
  const root = rootOf(log)
  const content = {
    tenant: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001',
    position,
    root,
    day,
    signed_at: `${day}T23:59:59.000Z`,
  }
  const signed = `${part({ alg: 'EdDSA', typ: checkpointType })}.${part(content)}`
  return { position, root, day, jws: `${signed}.${sign(null, Buffer.from(signed), privateKey).toString('base64url')}` }
}

/** The checkpoint of the whole log with other words in it, under the signature that it had. */
function forged(words: object): string {
  const [head = '', payload = '', signature = ''] = checkpoint(aLog(5)).jws.split('.')
  const content: object = JSON.parse(Buffer.from(payload, 'base64url').toString())
  return [head, part({ ...content, ...words }), signature].join('.')
}

function unsigned(): string {
  const [, payload = ''] = checkpoint(aLog(5)).jws.split('.')
  return `${part({ alg: 'none', typ: checkpointType })}.${payload}.`
}

async function write(name: string, lines: readonly unknown[]): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''))
  return path
}

async function verify(...options: readonly string[]) {
  let out = ''
  let err = ''
  const args = ['verify-log', join(folder, 'log.ndjson'), '--checkpoints', join(folder, 'checkpoints')]
  const exitCode = await run(
    [...args, '--jwks', join(folder, 'keys.json'), ...options],
    {},
    {
      out: (text) => (out += text),
      err: (text) => (err += text),
    },
  )
  return { exitCode, out, err }
}

describe('verify-log', () => {
  const log = aLog(5)

  beforeEach(async () => {
    await write('log.ndjson', log)
    await write('checkpoints', [checkpoint(log.slice(0, 2)).jws, checkpoint(log)])
    await write('keys.json', [{ keys: [publicKey.export({ format: 'jwk' })] }])
  })

  test('reports the line of a changed entry with exit code 3', async () => {
    await write('log.ndjson', log.with(2, { ...aLog(3, 'other')[2], hash: log[2]?.hash ?? '' }))
    const { exitCode, out, err } = await verify()
    expect({ exitCode, out }).toEqual({ exitCode: 3, out: '' })
    expect(err).toContain('log.ndjson line 3: ')
  })

  test('reports the first ten changed lines, the number of further lines, and no valid checkpoint', async () => {
    const long = aLog(120)
    await write(
      'log.ndjson',
      long.map((entry) => ({ ...entry, body: 'other' })),
    )
    await write('checkpoints', [checkpoint(long)])
    const { err } = await verify()
    expect(err.match(/line \d+: the entry does not match its hash/g)).toHaveLength(10)
    expect(err).toMatch(/; and 110 more lines of \S+log\.ndjson\n$/)
    const document: { readonly faults: unknown[] } = JSON.parse((await verify('--json')).err)
    expect(document).toMatchObject({ more_faults: 20, entries: 120 })
    expect(document.faults).toHaveLength(100)
  })

  test('reports the checkpoint that a rewritten log contradicts', async () => {
    await write('log.ndjson', [...log.slice(0, 2), ...rewritten()])
    const { exitCode, err } = await verify()
    expect(exitCode).toBe(3)
    expect(err).toMatch(/^postern: \S+checkpoints line 2: the log up to here differs/)
    expect(err).not.toContain('line 1')
  })

  test('rejects a log whose end was cut off', async () => {
    await write('log.ndjson', log.slice(0, 4))
    const { exitCode, err } = await verify('--json')
    expect(exitCode).toBe(3)
    expect(JSON.parse(err)).toMatchObject({ code: 'log_contradicted', faults: [{ line: 2 }], entries: 4 })
  })

  const at = (index: number): Entry => log[index] ?? expect.fail('the log is shorter')
  const changed = (index: number, body: string): Entry => ({ ...at(index), body })

  // Every kind of change, to the export or to the checkpoints, and what tells of it.
  test.each<[string, { readonly log?: readonly unknown[]; readonly checkpoints?: readonly unknown[] }, string]>([
    [
      'a word is altered',
      { log: log.with(1, changed(1, 'other')) },
      'log.ndjson line 2: the entry does not match its hash',
    ],
    [
      'a word and its hash are changed',
      { log: log.with(1, fitted(changed(1, 'x'))) },
      'line 3: the entry does not continue',
    ],
    [
      'the last entry and its hash are changed',
      { log: log.with(4, fitted(changed(4, 'x'))) },
      'checkpoints line 2: the log up to here differs',
    ],
    ['one in the middle is left out', { log: log.toSpliced(2, 1) }, 'line 3: an entry was removed, added or moved'],
    ['the last one is left out', { log: log.slice(0, 4) }, 'checkpoints line 2: the export ends before'],
    ['all are left out', { log: [] }, 'checkpoints line 1: the export ends before'],
    ['two are exchanged', { log: log.with(1, at(2)).with(2, at(1)) }, 'line 2: an entry was removed, added or moved'],
    ['an entry is repeated', { log: log.toSpliced(2, 0, at(1)) }, 'line 3: an entry was removed, added or moved'],
    [
      'an invented entry is appended',
      { log: [...log, { ...at(4), position: 6, seq: 6 }] },
      'line 6: the entry does not continue',
    ],
    ['a line is not an entry', { log: [...log.slice(0, 3), '{}', at(4)] }, 'line 4: is not an entry of the log'],
    ['the whole log is rewritten', { log: aLog(5, 'anew') }, 'checkpoints line 1: the log up to here differs'],
    [
      'a checkpoint has a changed root with the old signature',
      { checkpoints: [forged({ root: rootOf(aLog(5, 'anew')) })] },
      'line 1: is not a checkpoint',
    ],
    [
      'a checkpoint has an earlier end with the old signature',
      { checkpoints: [forged({ position: 4 })] },
      'line 1: is not a checkpoint',
    ],
    ['a checkpoint has the algorithm none', { checkpoints: [unsigned()] }, 'line 1: is not a checkpoint'],
  ])('reports the position with exit code 3 if %s', async (_what, files, told) => {
    if (files.log !== undefined) await write('log.ndjson', files.log)
    if (files.checkpoints !== undefined) await write('checkpoints', files.checkpoints)
    const { exitCode, out, err } = await verify()
    expect({ exitCode, out }).toEqual({ exitCode: 3, out: '' })
    expect(err).toContain(told)
  })

  test('rejects checkpoints signed by other keys', async () => {
    const stranger = generateKeyPairSync('ed25519').publicKey
    await write('keys.json', [{ keys: [stranger.export({ format: 'jwk' })] }])
    expect(await verify()).toMatchObject({ exitCode: 3, err: expect.stringContaining('signed by these keys') })
  })

  test.each([
    ['no checkpoint', 'checkpoints', ['']],
    ['a line that is not a checkpoint', 'checkpoints', [checkpoint(log).jws, '{']],
    ['a checkpoint that lacks its signature', 'checkpoints', [checkpoint(log), { ...checkpoint(log), jws: undefined }]],
    ['no keys', 'keys.json', ['[]']],
  ] as const)('ends with exit code 2 and no verdict for %s', async (_what, name, lines) => {
    await write(name, lines)
    expect(await verify()).toMatchObject({ exitCode: 2, out: '', err: expect.stringContaining(name) })
  })

  const ndjson = log.map((entry) => `${JSON.stringify(entry)}\n`).join('')
  const utf16 = Buffer.from(`\ufeff${ndjson}`, 'utf16le')

  test.each<[string, Uint8Array]>([
    ['a byte order mark', Buffer.from(`\ufeff${ndjson}`)],
    ['a byte order mark in the middle', Buffer.from(ndjson.replace('\n', '\n\ufeff'))],
    ['Windows line ends', Buffer.from(ndjson.replaceAll('\n', '\r\n'))],
    ['UTF-16, little endian', utf16],
    ['UTF-16 without a byte order mark', utf16.subarray(2)],
    ['UTF-16, big endian', Buffer.from(utf16).swap16()],
    ['gzip', gzipSync(ndjson)],
    ['gzip of several members', Buffer.concat(log.map((entry) => gzipSync(`${JSON.stringify(entry)}\n`)))],
    ['gzip over UTF-16', gzipSync(utf16)],
  ])('an unchanged export is verified in the form: %s', async (_form, bytes) => {
    await writeFile(join(folder, 'log.ndjson'), bytes)
    expect(await verify()).toMatchObject({ exitCode: 0, out: 'verified: 5 entries of 1 findings, 2 checkpoints\n' })
  })

  test.each<[string, Uint8Array]>([
    ['UTF-16', Buffer.from(`\ufeff${ndjson.replace('entry', 'other')}`, 'utf16le')],
    ['gzip', gzipSync(ndjson.replace('entry', 'other'))],
  ])('a changed word is detected in the form: %s', async (_form, bytes) => {
    await writeFile(join(folder, 'log.ndjson'), bytes)
    expect(await verify()).toMatchObject({ exitCode: 3, err: expect.stringContaining('log.ndjson line 1: ') })
  })

  test('checkpoints and keys are read as PowerShell saves them', async () => {
    await writeFile(join(folder, 'checkpoints'), Buffer.from(`\ufeff${checkpoint(log).jws}\r\n`, 'utf16le'))
    const keys = JSON.stringify({ keys: [publicKey.export({ format: 'jwk' })] })
    await writeFile(join(folder, 'keys.json'), `\ufeff${keys}`)
    expect(await verify()).toMatchObject({ exitCode: 0, out: 'verified: 5 entries of 1 findings, 1 checkpoints\n' })
  })

  const utf32 = Buffer.from(Uint32Array.from(`\ufeff${ndjson}`, (character) => character.codePointAt(0) ?? 0).buffer)
  const problem = { type: 'about:blank', title: 'No', status: 401, code: 'key_revoked', instance: 'r1' }

  test.each<[string, string | Uint8Array, string]>([
    ['a page of JSON', JSON.stringify(log), 'is a page of JSON'],
    ['a pretty-printed page of JSON', JSON.stringify(log, undefined, 2), 'is a page of JSON'],
    ['entries over several lines', JSON.stringify(log[0], undefined, 2), 'is JSON over several lines'],
    ['a table', 'position,seq,finding_id\n1,1,a\n', 'is a table (CSV)'],
    ['an error of the API', JSON.stringify(problem), 'contains an error of the API: No (key_revoked)'],
    ['a web page', '<!doctype html>', 'is a web page'],
    ['an answer with its headers', `HTTP/1.1 200 OK\r\n\r\n${ndjson}`, 'begins with response headers'],
    ['half a gzip file', gzipSync(ndjson).subarray(0, 60), 'is compressed with gzip and cut off'],
    ['a damaged gzip file', gzipSync(ndjson).fill(7, 20, 60), 'is a damaged gzip file'],
    ['zstd', zstdCompressSync(ndjson), 'is compressed with zstd'],
    ['a ZIP archive', Buffer.from('PK\u0003\u0004rest'), 'is a ZIP archive'],
    ['UTF-32, little endian', utf32, 'is text in UTF-32'],
    ['UTF-32, big endian, in gzip', gzipSync(Buffer.from(utf32).swap32()), 'is text in UTF-32'],
    ['UTF-32 without a byte order mark', utf32.subarray(4), 'is text in UTF-32'],
    ['another encoding', Buffer.from(ndjson.replace('entry', 'Prüfung'), 'latin1'), 'is not text in UTF-8'],
  ])('%s is reported as an unsupported file with exit code 2', async (_what, content, words) => {
    await writeFile(join(folder, 'log.ndjson'), content)
    expect(await verify()).toMatchObject({ exitCode: 2, out: '', err: expect.stringContaining(`log.ndjson ${words}`) })
  })

  test('reports an unreadable file with exit code 2', async () => {
    await rm(join(folder, 'log.ndjson'))
    expect(await verify()).toMatchObject({ exitCode: 2, err: expect.stringContaining('log.ndjson') })
  })

  test('verifies a log with checkpoints as JWS or as API responses', async () => {
    expect(await verify()).toEqual({ exitCode: 0, out: 'verified: 5 entries of 1 findings, 2 checkpoints\n', err: '' })
    const { out } = await verify('--json')
    expect(JSON.parse(out)).toEqual({
      is_intact: true,
      entries: 5,
      unsigned: 0,
      findings: 1,
      checkpoints: 2,
      root: rootOf(log),
    })
  })

  test('reports the number of entries that no checkpoint has signed yet', async () => {
    await write('checkpoints', [checkpoint(log.slice(0, 2))])
    expect(await verify()).toMatchObject({
      exitCode: 0,
      out: 'verified: 5 entries of 1 findings, 1 checkpoints; the last 3 are chained but not yet signed by a checkpoint\n',
    })
    expect(JSON.parse((await verify('--json')).out)).toMatchObject({ unsigned: 3 })
  })

  test('accepts an indented checkpoint', async () => {
    await write('checkpoints', [JSON.stringify(checkpoint(log), undefined, 2)])
    expect(await verify()).toMatchObject({ exitCode: 0, out: 'verified: 5 entries of 1 findings, 1 checkpoints\n' })
  })

  /** Entries 3 to 5 with another text, and every hash made to fit. */
  function rewritten(): Entry[] {
    const all: Entry[] = log.slice(0, 2)
    for (const entry of log.slice(2)) {
      const content = { ...entry, body: 'all is well', prev_hash: all.at(-1)?.hash ?? null }
      all.push({ ...content, hash: hashOf(sealEntry(content)) })
    }
    return all.slice(2)
  }
})
