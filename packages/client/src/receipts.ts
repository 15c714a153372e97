import type { AttachmentReceipt, Receipt } from '@postern/contracts'

/** A receipt that the API did not sign. */
export class ReceiptError extends Error {
  override readonly name = 'ReceiptError'
}

export type SignedReceipt = Receipt | AttachmentReceipt

const types: readonly unknown[] = ['postern-receipt', 'postern-attachment']

/**
 * Rejects with a ReceiptError unless one of the published keys (RFC 7517) signed exactly this receipt: a compact JWS (RFC
 * 7515) with Ed25519 (RFC 8037).
 */
export async function verifyReceipt(receipt: SignedReceipt, keys: readonly object[]): Promise<void> {
  const { jws, ...content } = receipt
  const parts = jws.split('.')
  const [head = '', payload = '', signature = ''] = parts
  const header = objectIn(head)
  const signed = objectIn(payload)
  if (parts.length !== 3 || header === undefined || signed === undefined) {
    throw new ReceiptError('The signature of the receipt is not a compact JWS.')
  }
  if (memberOf(header, 'alg') !== 'EdDSA' || !types.includes(memberOf(header, 'typ'))) {
    throw new ReceiptError('The signature is not that of a receipt.')
  }
  const key = keys.find(
    (each) => memberOf(each, 'kid') === memberOf(header, 'kid') && memberOf(each, 'crv') === 'Ed25519',
  )
  if (key === undefined) throw new ReceiptError('The receipt is signed with a key that is not published.')
  const bytes = new TextEncoder().encode(`${head}.${payload}`)
  if (!(await isSigned(key, bytesIn(signature), bytes))) {
    throw new ReceiptError('The signature of the receipt is not valid.')
  }
  if (sortedJson(signed) !== sortedJson(content)) throw new ReceiptError('The receipt is not the one that was signed.')
}

async function isSigned(
  key: object,
  signature: Uint8Array<ArrayBuffer> | undefined,
  bytes: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  if (signature === undefined) return false
  try {
    const jwk = { kty: 'OKP', crv: 'Ed25519', x: String(memberOf(key, 'x')) }
    const publicKey = await crypto.subtle.importKey('jwk', jwk, 'Ed25519', false, ['verify'])
    return await crypto.subtle.verify('Ed25519', publicKey, signature, bytes)
  } catch (error) {
    if (error instanceof DOMException && error.name === 'DataError') return false
    throw error
  }
}

function memberOf(value: object, name: string): unknown {
  return Reflect.get(value, name)
}

function objectIn(part: string): object | undefined {
  const bytes = bytesIn(part)
  if (bytes === undefined) return undefined
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes))
    return typeof value === 'object' && value !== null ? value : undefined
  } catch {
    return undefined
  }
}

/** Undefined if it is not base64url. */
function bytesIn(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (char) => char.charCodeAt(0))
  } catch {
    return undefined
  }
}

function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_name, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([one], [other]) => (one < other ? -1 : 1)))
      : part,
  )
}
