import { createHmac } from 'node:crypto'
import { type KeyRing, type SigningKey, parseKeyRing } from './key-ring.ts'

/** The signer of operators, and the prefix of a named operator's signer. */
export const operatorKeyName = 'operator'

const namePattern = /^[a-z][a-z0-9-]{0,22}$/

/** The audit trail shows these for others. */
const reservedNames = new Set([operatorKeyName, 'system'])

/** Its secret is derived, so services need no list of operators. */
export interface OperatorCredential {
  /** 1 to 23 of `a-z 0-9 -`, beginning with a letter; not `operator` or `system`. The audit trail shows it. */
  readonly name: string
  readonly ring: KeyRing
}

export function isOperatorName(text: string): boolean {
  return namePattern.test(text) && !reservedNames.has(text)
}

/** Returns `name:key id:secret` from the current key of the shared ring. */
export function createOperatorCredential(ring: KeyRing, name: string): string {
  if (!isOperatorName(name))
    throw new TypeError(
      'an operator name must be 1 to 23 of a-z 0-9 -, beginning with a letter, and not operator or system',
    )
  return `${name}:${ring.current.id}:${deriveOperatorSecret(ring.current, name).toString('base64url')}`
}

/** Throws a TypeError without the text. */
export function parseOperatorCredential(text: string): OperatorCredential {
  const [name = '', id = '', secret = '', ...more] = text.trim().split(':')
  if (more.length > 0 || !isOperatorName(name))
    throw new TypeError('an operator credential must have the form name:id:secret')
  return { name, ring: parseKeyRing(`${id}:${secret}`) }
}

/** Returns the 32-byte secret of a named operator: HMAC-SHA256 under the shared key (RFC 2104). */
export function deriveOperatorSecret(key: SigningKey, name: string): Buffer {
  return createHmac('sha256', key.secret).update(`postern-operator-credential\n${name}`).digest()
}
