import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { NotADocument, type PublicKey, verifyDocument } from './verify.ts'

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
const verdictOf = async (document: unknown, known = keys) =>
  (await verifyDocument(typeof document === 'string' ? document : JSON.stringify(document), known))[0]

describe('a receipt is not true', () => {
  test.each([
    ['with a field that was changed', { ...receipt, sha256: 'b'.repeat(64) }, 'Changed after it was signed: sha256'],
    ['with a field that was added', { ...receipt, approved: true }, 'Changed after it was signed: approved'],
    ['signed by somebody else', { ...content, ...signed(content, { kid: 'other' }) }, 'No published key'],
    ['that says it needs no signature', { ...content, ...signed(content, { alg: 'none' }) }, 'No published key'],
    [
      'with another signature',
      { ...content, jws: receipt.jws.slice(0, -8) + 'AAAAAAAA' },
      'The signature does not fit',
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

  test('and is not judged at all when it is none', async () => {
    for (const text of ['', 'hello', '{}', '[]', '[1]', 'a.b.c', '{"jws":"a.b"}']) {
      await expect(verifyDocument(text, keys)).rejects.toBeInstanceOf(NotADocument)
    }
  })
})

describe('a document is true', () => {
  test('that is a receipt as it was given, and what is shown of it is what was signed', async () => {
    expect(await verdictOf(receipt)).toMatchObject({ kind: 'receipt', isTrue: true, content })
    expect(await verdictOf(receipt.jws)).toMatchObject({ kind: 'receipt', isTrue: true, content })
    expect(await verifyDocument(JSON.stringify([receipt, receipt]), keys)).toHaveLength(2)
    const checkpoint = signed({ position: 7 }, { typ: 'postern-log-checkpoint' })
    expect(await verdictOf(checkpoint)).toMatchObject({ kind: 'checkpoint', isTrue: true, content: { position: 7 } })
  })
})

/** An entry with its hash, as the findings service writes it. */
function seal(entry: object) {
  const text = JSON.stringify(Object.fromEntries(Object.entries(entry).toSorted(([a], [b]) => (a < b ? -1 : 1))))
  return { ...entry, hash: createHash('sha256').update(text).digest('hex') }
}

describe('an export of the log', () => {
  const first = seal({ position: 1, seq: 1, finding_id: 'f', prev_hash: null, body: 'é' })
  const second = seal({ position: 2, seq: 2, finding_id: 'f', prev_hash: first.hash, body: 'two' })
  const third = seal({ position: 3, seq: 3, finding_id: 'f', prev_hash: second.hash, body: 'three' })

  test('is true when every entry says what was hashed and follows the one before', async () => {
    const lines = [first, second, third].map((entry) => JSON.stringify(entry)).join('\n')
    expect(await verdictOf(lines)).toMatchObject({ kind: 'log', isTrue: true, content: { entries: 3, findings: 1 } })
  })

  test('is not when an entry was changed or taken out', async () => {
    expect((await verdictOf([first, { ...second, body: 'other' }, third]))?.isTrue).toBe(false)
    expect((await verdictOf([first, third]))?.isTrue).toBe(false)
  })
})
