import { generateKeyPairSync, sign } from 'node:crypto'
import { emptyRoot, hashOf, nextRoot, sealEntry } from '@postern/log-chain'
import { describe, expect, test } from 'vitest'
import {
  type Checkpoint,
  NotADocumentError,
  type PublicKey,
  type Verdict,
  checkpointOf,
  verifyDocument,
} from './verify.ts'

const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const { x = '' } = publicKey.export({ format: 'jwk' })
const keys: readonly PublicKey[] = [{ kty: 'OKP', crv: 'Ed25519', x, kid: 'one' }]

function encode(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url')
}

function signed(content: object, header: object = {}): { readonly jws: string } {
  const text = `${encode({ alg: 'EdDSA', kid: 'one', typ: 'postern-receipt', ...header })}.${encode(content)}`
  return { jws: `${text}.${sign(null, Buffer.from(text), privateKey).toString('base64url')}` }
}

const content = {
  reference: 'EV-2026-000042',
  sha256: 'a'.repeat(64),
  file_name: 'übersicht.pdf',
  test_procedures: ['TP-1'],
}
const receipt = { ...content, ...signed(content) }
const verdictOf = async (document: unknown, checkpoint?: Checkpoint) =>
  (await verifyDocument(typeof document === 'string' ? document : JSON.stringify(document), keys, checkpoint))[0]

describe('a receipt is not genuine', () => {
  test.each([
    ['with a field that was changed', { ...receipt, sha256: 'b'.repeat(64) }, 'Changed after it was signed: sha256'],
    ['with a field that was added', { ...receipt, approved: true }, 'Changed after it was signed: approved'],
    ['signed by somebody else', { ...content, ...signed(content, { kid: 'other' }) }, 'signing key is not published'],
    [
      'that says it needs no signature',
      { ...content, ...signed(content, { alg: 'none' }) },
      'signing key is not published',
    ],
    [
      'with another signature',
      { ...content, jws: receipt.jws.slice(0, -8) + 'AAAAAAAA' },
      'The signature is not valid',
    ],
  ])('%s', async (_title, document, words) => {
    const verdict = await verdictOf(document)
    expect(verdict?.isTrue).toBe(false)
    expect(
      verdict?.checks
        .filter(({ outcome }) => outcome === 'false')
        .map((check) => check.words)
        .join(' '),
    ).toContain(words)
  })

  test.each([
    ['a receipt', `{"sha256":"${'b'.repeat(64)}",${JSON.stringify(receipt).slice(1)}`],
    ['a line of several', `${JSON.stringify(receipt)}\n{"file_name":"other.pdf",${JSON.stringify(receipt).slice(1)}`],
    ['something within', `{"more":[{"a":1,"b":{"a":":"},"a":2}],${JSON.stringify(receipt).slice(1)}`],
  ])('and is rejected if %s has a member twice', async (_what, document) => {
    await expect(verdictOf(document)).rejects.toThrow('A member occurs twice')
  })

  test('and other files are rejected', async () => {
    for (const text of ['', 'hello', '{}', '[]', '[1]', 'a.b.c', '{"jws":"a.b"}']) {
      await expect(verifyDocument(text, keys)).rejects.toBeInstanceOf(NotADocumentError)
    }
  })
})

describe('a document is true', () => {
  test('an unchanged receipt is genuine, and only its signed content is shown', async () => {
    expect(await verdictOf(receipt)).toMatchObject({ kind: 'receipt', isTrue: true, content })
    expect(await verdictOf(receipt.jws)).toMatchObject({ kind: 'receipt', isTrue: true, content })
    expect(await verifyDocument(JSON.stringify([receipt, receipt]), keys)).toHaveLength(2)
    const checkpoint = signed({ position: 7 }, { typ: 'postern-log-checkpoint' })
    expect(await verdictOf(checkpoint)).toMatchObject({ kind: 'checkpoint', isTrue: true, content: { position: 7 } })
  })
})

/** As the findings service does it. */
function seal(entry: Readonly<Record<string, unknown>>) {
  return { ...entry, hash: hashOf(sealEntry(entry)) }
}

function rootOf(hashes: readonly string[]): string {
  return hashes.reduce(nextRoot, emptyRoot)
}

/** What was found beside the entries themselves. */
function outcomes(verdict?: Verdict) {
  return verdict?.checks.slice(2).map(({ outcome }) => outcome)
}

describe('an export of the log', () => {
  const first = seal({ position: 1, seq: 1, finding_id: 'f', prev_hash: null, body: 'é' })
  const second = seal({ position: 2, seq: 2, finding_id: 'f', prev_hash: first.hash, body: 'two' })
  const third = seal({ position: 3, seq: 3, finding_id: 'f', prev_hash: second.hash, body: 'three' })

  test('is consistent if every entry matches its hash and follows the previous one', async () => {
    const lines = [first, second, third].map((entry) => JSON.stringify(entry)).join('\n')
    expect(await verdictOf(lines)).toMatchObject({ kind: 'log', isTrue: true, content: { entries: 3, findings: 1 } })
  })

  test('is inconsistent if an entry was changed or removed', async () => {
    expect((await verdictOf([first, { ...second, body: 'other' }, third]))?.isTrue).toBe(false)
    expect((await verdictOf([first, third]))?.isTrue).toBe(false)
  })

  test('is genuine only with a signed checkpoint, which reveals rewritten and truncated logs', async () => {
    const said = { position: 2, root: rootOf([first.hash, second.hash]) }
    const found = await verdictOf(signed(said, { typ: 'postern-log-checkpoint' }))
    const checkpoint = found === undefined ? undefined : checkpointOf(found)
    expect(checkpoint).toEqual(said)
    expect(outcomes(await verdictOf([first, second, third]))).toEqual(['open'])
    expect(outcomes(await verdictOf([first, second], checkpoint))).toEqual(['true'])
    expect(outcomes(await verdictOf([first, second, third], checkpoint))).toEqual(['true', 'open'])
    expect(outcomes(await verdictOf([second, third], checkpoint))).toEqual(['open'])
    expect(outcomes(await verdictOf([first], checkpoint))).toEqual(['false'])
    // Every hash matches, but it is a different log.
    const other = seal({ position: 2, seq: 2, finding_id: 'f', prev_hash: first.hash, body: 'other' })
    const rewritten = await verdictOf([first, other], checkpoint)
    expect(outcomes(rewritten)).toEqual(['false'])
    expect(rewritten?.isTrue).toBe(false)
  })

  test('is not compared with an invalid checkpoint', async () => {
    const forged = await verdictOf(signed({ position: 1, root: 'x' }, { typ: 'postern-log-checkpoint', kid: 'other' }))
    expect(forged === undefined ? 'none' : checkpointOf(forged)).toBeUndefined()
  })
})
