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

/** Entries of two findings in turn, as the service writes them. */
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

describe('an export of the log', () => {
  test.each([
    ['a word that was changed', (log: Entry[]) => log.with(3, { ...at(log, 3), body: 'x' }), 'content'],
    ['a member that was added', (log: Entry[]) => log.with(3, { ...at(log, 3), extra: 1 }), 'content'],
    ['a changed entry with a new hash', (log: Entry[]) => log.with(3, rehashed({ ...at(log, 3), body: 'x' })), 'link'],
    ['an entry that was taken away', (log: Entry[]) => log.toSpliced(3, 1), 'order'],
    ['an entry that stands twice', (log: Entry[]) => log.toSpliced(3, 0, at(log, 3)), 'order'],
    ['two entries that changed places', (log: Entry[]) => log.with(3, at(log, 5)).with(5, at(log, 3)), 'order'],
  ] as const)('shows %s', async (_what, tamper, problem) => {
    const log = aLog(8)
    expect((await verifyExport(lines(log))).isIntact).toBe(true)
    const report = await verifyExport(lines(tamper(log)))
    expect(report.isIntact).toBe(false)
    expect(report.faults[0]?.problem).toBe(problem)
  })

  test.each([
    ['of a word that was changed', (log: Entry[]) => log.with(3, { ...at(log, 3), body: 'x' }), [4]],
    [
      'of two words',
      (log: Entry[]) => log.with(3, { ...at(log, 3), body: 'x' }).with(6, { ...at(log, 6), body: 'y' }),
      [4, 7],
    ],
    // What stands in its place, and the next one of the same finding.
    ['of an entry that was taken away', (log: Entry[]) => log.toSpliced(3, 1), [4, 5]],
    ['of an entry that stands twice', (log: Entry[]) => log.toSpliced(3, 0, at(log, 3)), [5]],
  ] as const)('tells the lines %s, and no line that nobody has touched', async (_what, tamper, tampered) => {
    const report = await verifyExport(lines(tamper(aLog(12))))
    expect(report.faults.map(({ line }) => line)).toEqual(tampered)
  })

  test('of which every line was changed is read to its end: none is told to be missing', async () => {
    const log = aLog(130)
    const forged = log.map((entry) => ({ ...entry, body: 'x' }))
    const report = await verifyExport(lines(forged), [await signed(pair.privateKey, log)], keys)
    expect(report).toMatchObject({ entries: 130, moreFaults: 30, checkpoints: [{ outcome: 'agrees' }] })
    expect(report.faults).toHaveLength(100)
    expect(report.isIntact).toBe(false)
  })

  test('holds nothing where it is empty, or blanks that were sent while nothing was found', async () => {
    for (const text of ['', '   ', ' \n']) {
      expect(await verifyExport(text.split('\n'))).toMatchObject({ isIntact: true, entries: 0, faults: [] })
    }
    const [first = '', ...others] = lines(aLog(2))
    expect(await verifyExport([`  ${first} `, ...others])).toMatchObject({ isIntact: true, entries: 2 })
  })

  test('shows a line that is no entry', async () => {
    expect((await verifyExport([...lines(aLog(2)), '{"a":1}', 'x'])).faults).toEqual([
      { line: 3, problem: 'form' },
      { line: 4, problem: 'form' },
    ])
  })

  test('shows a word that stands beside the genuine one: readers that take the first would be told it', async () => {
    const log = aLog(2).map((entry) => ({ ...entry, body: `${entry.body} {":"} \\` }))
    const [first = '', ...others] = lines(log.map((entry) => ({ ...entry, hash: hashOf(sealEntry(entry)) })))
    const whole = await verifyExport([first])
    expect(whole.isIntact).toBe(true)
    const forged = await verifyExport([`{"body":"forged",${first.slice(1)}`, ...others])
    expect(forged.faults[0]).toEqual({ line: 1, problem: 'form' })
    expect(forged.isIntact).toBe(false)
  })

  test('that was rewritten as a whole contradicts the checkpoint that was kept', async () => {
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

  test('that ends before the checkpoint does not pass for whole', async () => {
    const log = aLog(6)
    const report = await verifyExport(lines(log.slice(0, 5)), [await signed(pair.privateKey, log)], keys)
    expect(report).toMatchObject({ isIntact: false, faults: [], checkpoints: [{ outcome: 'beyond-export' }] })
  })

  test('is not vouched for by a checkpoint of another key or of another type', async () => {
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

test('the text that is hashed is canonical JSON: members sorted, numbers and strings as RFC 8785 says', () => {
  expect(sealEntry({ b: [1.0, '\u20ac', 1e21], a: { z: null, y: '\u000f' }, hash: 'left out' })).toBe(
    '{"a":{"y":"\\u000f","z":null},"b":[1,"€",1e+21]}',
  )
})
