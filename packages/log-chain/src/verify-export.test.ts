import { type KeyObject, generateKeyPairSync } from 'node:crypto'
import { CompactSign, exportJWK } from 'jose'
import { describe, expect, test } from 'vitest'
import { checkpointType, emptyRoot, hashOf, nextRoot, sealEntry, verifyExport } from './index.ts'

const tenant = '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'

interface Entry extends Record<string, unknown> {
  position: number
  seq: number
  finding_id: string
  prev_hash: string | null
  hash: string
  body: string
}

/** Creates alternating entries of two findings, in the format of the service. */
function aLog(count: number): Entry[] {
  const last = new Map<string, Entry>()
  return Array.from({ length: count }, (_, index) => {
    const finding_id = index % 2 === 0 ? 'a' : 'b'
    const before = last.get(finding_id)
    const content = {
      position: index + 1,
      seq: (before?.seq ?? 0) + 1,
      finding_id,
      prev_hash: before?.hash ?? null,
      body: `entry ${index} \u00e9\u2028`,
    }
    const entry = { ...content, hash: hashOf(sealEntry(content)) }
    last.set(finding_id, entry)
    return entry
  })
}

function at(log: readonly Entry[], index: number): Entry {
  const entry = log[index]
  if (entry === undefined) throw new Error('the log is shorter')
  return entry
}

const lines = (entries: readonly Entry[]) => entries.map((entry) => JSON.stringify(entry))
const rootOf = (entries: readonly Entry[]) => entries.reduce((root, { hash }) => nextRoot(root, hash), emptyRoot)
const rehashed = (entry: Entry): Entry => ({ ...entry, hash: hashOf(sealEntry(entry)) })

async function signed(key: KeyObject, entries: readonly Entry[], typ: string = checkpointType) {
  const content = {
    tenant,
    position: entries.length,
    root: rootOf(entries),
    day: '2026-01-01',
    signed_at: '2026-01-01T00:00:00.000Z',
  }
  return await new CompactSign(new TextEncoder().encode(JSON.stringify(content)))
    .setProtectedHeader({ alg: 'EdDSA', typ })
    .sign(key)
}

const pair = generateKeyPairSync('ed25519')
const keys = { keys: [await exportJWK(pair.publicKey)] }

describe('the verification of an export', () => {
  test.each([
    ['a changed value', (log: Entry[]) => log.with(3, { ...at(log, 3), body: 'x' }), 'content'],
    ['an added member', (log: Entry[]) => log.with(3, { ...at(log, 3), extra: 1 }), 'content'],
    ['a changed entry with a new hash', (log: Entry[]) => log.with(3, rehashed({ ...at(log, 3), body: 'x' })), 'link'],
    ['a removed entry', (log: Entry[]) => log.toSpliced(3, 1), 'order'],
    ['a duplicated entry', (log: Entry[]) => log.toSpliced(3, 0, at(log, 3)), 'order'],
    ['two swapped entries', (log: Entry[]) => log.with(3, at(log, 5)).with(5, at(log, 3)), 'order'],
  ] as const)('finds %s', async (_what, tamper, problem) => {
    const log = aLog(8)
    expect((await verifyExport(lines(log))).isIntact).toBe(true)
    const report = await verifyExport(lines(tamper(log)))
    expect(report.isIntact).toBe(false)
    expect(report.faults[0]?.problem).toBe(problem)
  })

  test.each([
    ['of a changed value', (log: Entry[]) => log.with(3, { ...at(log, 3), body: 'x' }), [4]],
    [
      'of two changed values',
      (log: Entry[]) => log.with(3, { ...at(log, 3), body: 'x' }).with(6, { ...at(log, 6), body: 'y' }),
      [4, 7],
    ],
    // The entry that is now in its place, and the next one of the same finding.
    ['of a removed entry', (log: Entry[]) => log.toSpliced(3, 1), [4, 5]],
    ['of a duplicated entry', (log: Entry[]) => log.toSpliced(3, 0, at(log, 3)), [5]],
  ] as const)('reports the line numbers %s and no untouched line', async (_what, tamper, tampered) => {
    const report = await verifyExport(lines(tamper(aLog(12))))
    expect(report.faults.map(({ line }) => line)).toEqual(tampered)
  })

  test('reads to the end of the export, even if every line was changed', async () => {
    const log = aLog(130)
    const forged = log.map((entry) => ({ ...entry, body: 'x' }))
    const report = await verifyExport(lines(forged), [await signed(pair.privateKey, log)], keys)
    expect(report).toMatchObject({ entries: 130, moreFaults: 30, checkpoints: [{ outcome: 'agrees' }] })
    expect(report.faults).toHaveLength(100)
    expect(report.isIntact).toBe(false)
  })

  test('accepts an empty export and ignores blanks', async () => {
    for (const text of ['', '   ', ' \n']) {
      expect(await verifyExport(text.split('\n'))).toMatchObject({ isIntact: true, entries: 0, faults: [] })
    }
    const [first = '', ...others] = lines(aLog(2))
    expect(await verifyExport([`  ${first} `, ...others])).toMatchObject({ isIntact: true, entries: 2 })
  })

  test('reports a line that is not an entry', async () => {
    expect((await verifyExport([...lines(aLog(2)), '{"a":1}', 'x'])).faults).toEqual([
      { line: 3, problem: 'form' },
      { line: 4, problem: 'form' },
    ])
  })

  test('rejects a duplicate member, which some readers would use instead of the authentic one', async () => {
    const log = aLog(2).map((entry) => ({ ...entry, body: `${entry.body} {":"} \\` }))
    const [first = '', ...others] = lines(log.map((entry) => ({ ...entry, hash: hashOf(sealEntry(entry)) })))
    const whole = await verifyExport([first])
    expect(whole.isIntact).toBe(true)
    const forged = await verifyExport([`{"body":"forged",${first.slice(1)}`, ...others])
    expect(forged.faults[0]).toEqual({ line: 1, problem: 'form' })
    expect(forged.isIntact).toBe(false)
  })

  test('finds that a rewritten log contradicts an earlier checkpoint', async () => {
    const log = aLog(6)
    const kept = await signed(pair.privateKey, log.slice(0, 4))
    const genuine = await verifyExport(lines(log), [kept], keys)
    expect(genuine).toMatchObject({ isIntact: true, entries: 6, findings: 2, checkpoints: [{ outcome: 'agrees' }] })

    const rewritten: Entry[] = []
    for (const entry of log) {
      const before = rewritten.findLast((other) => other.finding_id === entry.finding_id)
      rewritten.push(rehashed({ ...entry, body: 'all is well', prev_hash: before?.hash ?? null }))
    }
    const report = await verifyExport(lines(rewritten), [kept], keys)
    expect(report.faults).toEqual([])
    expect(report).toMatchObject({ isIntact: false, checkpoints: [{ outcome: 'contradicts' }] })
  })

  test('rejects an export that ends before the checkpoint', async () => {
    const log = aLog(6)
    const report = await verifyExport(lines(log.slice(0, 5)), [await signed(pair.privateKey, log)], keys)
    expect(report).toMatchObject({ isIntact: false, faults: [], checkpoints: [{ outcome: 'beyond-export' }] })
  })

  test('rejects a checkpoint with another key or of another type', async () => {
    const log = aLog(2)
    const stranger = generateKeyPairSync('ed25519')
    for (const jws of [
      await signed(stranger.privateKey, log),
      await signed(pair.privateKey, log, 'postern-receipt'),
      'x',
    ]) {
      const report = await verifyExport(lines(log), [jws], keys)
      expect(report.checkpoints).toEqual([{ checkpoint: undefined, outcome: 'not-signed-by-these-keys' }])
      expect(report.isIntact).toBe(false)
    }
  })
})

test('the hashed text is canonical JSON (RFC 8785)', () => {
  expect(sealEntry({ b: [1.0, '\u20ac', 1e21], a: { z: null, y: '\u000f' }, hash: 'left out' })).toBe(
    '{"a":{"y":"\\u000f","z":null},"b":[1,"€",1e+21]}',
  )
})
