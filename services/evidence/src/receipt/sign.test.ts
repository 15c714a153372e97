import { createPrivateKey, generateKeyPairSync } from 'node:crypto'
import { compactVerify, createLocalJWKSet } from 'jose'
import { describe, expect, test } from 'vitest'
import { type ReceiptContent, openReceiptSigner } from './sign.ts'

const content: ReceiptContent = {
  id: '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001',
  reference: 'EV-2026-000042',
  file_name: 'übersicht.pdf',
  content_type: 'application/pdf',
  detected_content_type: null,
  size_bytes: 7,
  sha256: 'a'.repeat(64),
  received_at: '2026-11-21T09:30:00.000Z',
  evidence_date: '2026-11-21',
  test_procedures: [],
  version_of: null,
  revision: 1,
  status: 'accepted',
  scan: 'not_configured',
  malware: null,
  retention_until: '2033-11-21',
}
const makeKey = () => generateKeyPairSync('ed25519').privateKey

describe('the signer of receipts', () => {
  test('names its key by the thumbprint that RFC 8037 appendix A.3 gives for the key of appendix A.1', async () => {
    const key = createPrivateKey({
      format: 'jwk',
      key: {
        kty: 'OKP',
        crv: 'Ed25519',
        d: 'nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A',
        x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
      },
    })
    const { publicKeys } = await openReceiptSigner([key])
    expect(publicKeys).toEqual([
      {
        kty: 'OKP',
        crv: 'Ed25519',
        x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
        kid: 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k',
        alg: 'EdDSA',
        use: 'sig',
      },
    ])
  })

  test('signs exactly the other fields of the receipt', async () => {
    const signer = await openReceiptSigner([makeKey()])
    const { jws, ...rest } = await signer.sign(content)
    expect(rest).toEqual(content)
    const { payload } = await compactVerify(jws, createLocalJWKSet({ keys: [...signer.publicKeys] }))
    expect(JSON.parse(Buffer.from(payload).toString('utf8'))).toEqual(content)
  })

  test('signs with the new key, and still publishes the previous one, so that older receipts remain valid', async () => {
    const [before, after] = [makeKey(), makeKey()]
    const old = await (await openReceiptSigner([before])).sign(content)
    const signer = await openReceiptSigner([after, before])
    const keys = createLocalJWKSet({ keys: [...signer.publicKeys] })
    const { protectedHeader } = await compactVerify(old.jws, keys)
    expect(protectedHeader.kid).toBe(signer.publicKeys[1]?.kid)
    const next = await compactVerify((await signer.sign(content)).jws, keys)
    expect(next.protectedHeader.kid).toBe(signer.publicKeys[0]?.kid)
  })
})
