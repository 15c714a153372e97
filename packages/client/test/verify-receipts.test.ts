import { generateKeyPairSync, sign } from 'node:crypto'
import { ReceiptError, verifyReceipt } from '@postern/client'
import type { AttachmentReceipt } from '@postern/contracts'
import { describe, expect, test } from 'vitest'

const content: Omit<AttachmentReceipt, 'jws'> = {
  id: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001',
  reference: 'EV-2026-000001',
  sha256: 'a'.repeat(64),
  test_procedures: ['ext:tp'],
  note: null,
  attached_at: '2026-11-21T09:30:00.000Z',
  attachments: [
    { test_procedure_id: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001', note: 'ß', attached_at: '2026-11-21T09:30:00.000Z' },
  ],
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}

function signed(header: object = {}) {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const text = `${encode({ alg: 'EdDSA', typ: 'postern-attachment', kid: 'k', ...header })}.${encode(content)}`
  const jws = `${text}.${sign(null, Buffer.from(text), privateKey).toString('base64url')}`
  return {
    jws,
    keys: [
      { kid: 'other', crv: 'X25519' },
      { ...publicKey.export({ format: 'jwk' }), kid: 'k' },
    ],
  }
}

const receiptOf = (jws: string, change: object = {}): AttachmentReceipt => ({ ...content, ...change, jws })

describe('a receipt is rejected', () => {
  test.each([{ alg: 'none' }, { typ: 'JWT' }, { kid: 'unknown' }])('with the header %o', async (header) => {
    const { jws, keys } = signed(header)
    await expect(verifyReceipt(receiptOf(jws), keys)).rejects.toThrow(ReceiptError)
  })

  test.each([{ sha256: 'b'.repeat(64) }, { extra: 1 }, { attachments: [] }])('if %o was changed', async (change) => {
    const { jws, keys } = signed()
    await expect(verifyReceipt(receiptOf(jws, change), keys)).rejects.toThrow('not the one that was signed')
  })

  test.each([
    ['of another key', (jws: string) => `${jws.slice(0, jws.lastIndexOf('.'))}.${signed().jws.split('.').at(-1)}`],
    ['that is empty', () => ''],
    ['that is no base64url', (jws: string) => `${jws}%`],
    [
      'with another payload',
      (jws: string) => jws.replace(/\.[^.]+\./, `.${encode({ ...content, reference: 'EV-1' })}.`),
    ],
  ])('with a signature %s', async (_of, change) => {
    const { jws, keys } = signed()
    await expect(verifyReceipt(receiptOf(change(jws)), keys)).rejects.toThrow(ReceiptError)
  })

  test('if the published key is none', async () => {
    const { jws } = signed()
    await expect(verifyReceipt(receiptOf(jws), [{ kid: 'k', crv: 'Ed25519', x: 'no key' }])).rejects.toThrow(
      ReceiptError,
    )
  })
})

test('a receipt that a published key signed is accepted, in whatever order its members are', async () => {
  const { jws, keys } = signed()
  await expect(verifyReceipt(receiptOf(jws), keys)).resolves.toBeUndefined()
  const { reference, ...others } = receiptOf(jws)
  await expect(verifyReceipt({ ...others, reference }, keys)).resolves.toBeUndefined()
})
