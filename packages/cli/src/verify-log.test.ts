import { generateKeyPairSync, sign } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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

  test('names the line of an entry that was changed, with exit code 3', async () => {
    await write('log.ndjson', log.with(2, { ...aLog(3, 'other')[2], hash: log[2]?.hash ?? '' }))
    const { exitCode, out, err } = await verify()
    expect({ exitCode, out }).toEqual({ exitCode: 3, out: '' })
    expect(err).toContain('log.ndjson line 3: ')
  })

  test('names the checkpoint that a log written anew contradicts', async () => {
    await write('log.ndjson', [...log.slice(0, 2), ...rewritten()])
    const { exitCode, err } = await verify()
    expect(exitCode).toBe(3)
    expect(err).toMatch(/^postern: \S+checkpoints line 2: the log up to here is another/)
    expect(err).not.toContain('line 1')
  })

  test('does not take a log whose end was cut off for whole', async () => {
    await write('log.ndjson', log.slice(0, 4))
    const { exitCode, err } = await verify('--json')
    expect(exitCode).toBe(3)
    expect(JSON.parse(err)).toMatchObject({ code: 'log_contradicted', faults: [{ line: 2 }], entries: 4 })
  })

  test('does not believe checkpoints that other keys have signed', async () => {
    const stranger = generateKeyPairSync('ed25519').publicKey
    await write('keys.json', [{ keys: [stranger.export({ format: 'jwk' })] }])
    expect(await verify()).toMatchObject({ exitCode: 3, err: expect.stringContaining('these keys have signed') })
  })

  test.each([
    ['no checkpoint', 'checkpoints', ['']],
    ['no keys', 'keys.json', ['[]']],
  ] as const)('says nothing of the log when there is %s: exit code 2', async (_what, name, lines) => {
    await write(name, lines)
    expect(await verify()).toMatchObject({ exitCode: 2, out: '', err: expect.stringContaining(name) })
  })

  test('says which file cannot be read: exit code 2', async () => {
    await rm(join(folder, 'log.ndjson'))
    expect(await verify()).toMatchObject({ exitCode: 2, err: expect.stringContaining('log.ndjson') })
  })

  test('says that a log is true, with checkpoints as JWS or as the API answers them', async () => {
    expect(await verify()).toEqual({ exitCode: 0, out: 'true: 5 entries of 1 findings, 2 checkpoints\n', err: '' })
    const { out } = await verify('--json')
    expect(JSON.parse(out)).toEqual({ is_intact: true, entries: 5, findings: 1, checkpoints: 2, root: rootOf(log) })
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
