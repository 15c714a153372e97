import { createHmac } from 'node:crypto'
import { type KeyRing, type SigningKey, parseKeyRing } from './key-ring.ts'

/** The signer name of operators, and the prefix of the signer name of a named operator. */
export const operatorKeyName = 'operator'

const namePattern = /^[a-z][a-z0-9-]{0,22}$/

/** Names that the audit trail shows for those who are no named operator. */
const reservedNames = new Set([operatorKeyName, 'system'])

/** The credential of one named operator. Its secret is derived, so services need no list of operators. */
export interface OperatorCredential {
  /** 1 to 23 of `a-z 0-9 -`, beginning with a letter; not `operator` or `system`. The audit trail shows it. */
  readonly name: string
  /** A secret ring with one key. */
  readonly ring: KeyRing
}

/** Whether a text can be the name of an operator. */
export function isOperatorName(text: string): boolean {
  return namePattern.test(text) && !reservedNames.has(text)
}

/** Returns the credential of a named operator, `name:key id:secret`, from the current key of the shared ring. */
export function createOperatorCredential(ring: KeyRing, name: string): string {
  if (!isOperatorName(name))
    throw new TypeError(
      'an operator name must be 1 to 23 of a-z 0-9 -, beginning with a letter, and not operator or system',
    )
  return `${name}:${ring.current.id}:${deriveOperatorSecret(ring.current, name).toString('base64url')}`
}

/** Parses a credential. Throws a TypeError that never contains the text. */
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
