import { createHmac, randomBytes } from 'node:crypto'
import {
  assertionHeader,
  contextHeader,
  requestIdHeader,
  signatureHeader,
  signatureInputHeader,
} from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import { type CallerKind, noAssertion, serializeContext } from './context.ts'
import { type KeyRing, parseKeyRing } from './key-ring.ts'
import { createOperatorCredential, parseOperatorCredential } from './operator-credential.ts'
import { createSigner } from './sign.ts'
import { nilTenantId } from './tenant-id.ts'
import { createVerifier } from './verify.ts'

const shared = parseKeyRing(`k1:${randomBytes(32).toString('base64url')}`)
const now = Date.now()

function verify(
  ring: KeyRing,
  signer: string,
  options: { kind?: CallerKind; revoked?: readonly string[]; as?: string } = {},
) {
  const { kind = 'operator', revoked = [], as = 'operator' } = options
  const claims = { tenantId: nilTenantId, kind, id: 'cfo', label: 'Head of Audit', scopes: [], roles: [] }
  const signed = { context: serializeContext(claims), assertion: noAssertion, requestId: 'r1' }
  const request = { method: 'GET', target: '/api/v1/api-keys' }
  const { signatureInput, signature } = createSigner(ring, signer).sign({ ...request, ...signed }, now)
  const headers = [
    [contextHeader, signed.context],
    [assertionHeader, signed.assertion],
    [requestIdHeader, signed.requestId],
    [signatureInputHeader, signatureInput],
    [signatureHeader, signature],
  ].flat()
  return createVerifier(shared, as, { revokedOperators: new Set(revoked) }).verify({ ...request, headers }, now)
}

const ada = parseOperatorCredential(createOperatorCredential(shared, 'ada'))

describe('the credential of a named operator', () => {
  test.each([
    ['under another name', verify(ada.ring, 'operator-bob'), 'wrong_signature'],
    ['without a name', verify(ada.ring, 'operator'), 'wrong_signature'],
    ['under an invalid name', verify(ada.ring, 'operator-1'), 'unknown_key'],
    ['after its name was revoked', verify(ada.ring, 'operator-ada', { revoked: ['ada'] }), 'unknown_key'],
    ['for a service', verify(ada.ring, 'operator-ada', { kind: 'service' }), 'not_an_operator'],
    ['for a key name other than operator', verify(ada.ring, 'operator-ada', { as: 'keys' }), 'unknown_key'],
    [
      'made from another ring',
      verify(parseKeyRing(`k1:${randomBytes(32).toString('base64url')}`), 'operator-ada'),
      'wrong_signature',
    ],
  ])('is rejected %s', (_how, verification, reason) => {
    expect(verification).toEqual({ ok: false, reason })
  })

  test('decides the name that the service sees, whatever name the request claims', () => {
    expect(verify(ada.ring, 'operator-ada')).toMatchObject({ ok: true, context: { id: 'ada', label: 'ada' } })
    expect(verify(shared, 'operator')).toMatchObject({ ok: true, context: { id: 'operator', label: 'operator' } })
  })

  test.each(['operator', 'system'])('cannot have the name %j, which the audit trail shows for others', (name) => {
    expect(() => createOperatorCredential(shared, name)).toThrow(TypeError)
    const forged = createHmac('sha256', shared.current.secret).update(`postern-operator-credential\n${name}`).digest()
    expect(verify({ current: { id: 'k1', secret: forged } }, `operator-${name}`)).toEqual({
      ok: false,
      reason: 'unknown_key',
    })
  })

  test('still works during a rotation of the shared ring', () => {
    const rotated = { current: { id: 'k2', secret: randomBytes(32) }, previous: shared.current }
    const renewed = parseOperatorCredential(createOperatorCredential(rotated, 'ada'))
    expect(renewed.ring.current.id).toBe('k2')
    expect(renewed.ring.current.secret.equals(ada.ring.current.secret)).toBe(false)
  })

  test.each(['', 'ada', 'ada:k1', 'Ada:k1:x', 'ada:k1:short', `${'a'.repeat(24)}:k1:${'A'.repeat(43)}`])(
    'is not parsed from %j, and the error does not show it',
    (text) => {
      expect(() => parseOperatorCredential(text)).toThrow(TypeError)
    },
  )
})
