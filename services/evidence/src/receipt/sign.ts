import { type KeyObject, createPublicKey } from 'node:crypto'
import type { AttachmentReceipt, Receipt } from '@postern/contracts'
import type { SigningKeys } from '@postern/service-kit'
import { CompactSign, type JWK, calculateJwkThumbprint, exportJWK } from 'jose'

export type ReceiptContent = Omit<Receipt, 'jws'>

export interface ReceiptSigner {
  /** A compact JWS (RFC 7515) whose payload is the other fields as JSON. */
  sign(content: ReceiptContent): Promise<Receipt>
  signAttachment(content: Omit<AttachmentReceipt, 'jws'>): Promise<AttachmentReceipt>
  /** RFC 7517, the signing key first. */
  readonly publicKeys: readonly JWK[]
}

/** The `typ` separates receipts from other signatures with the same key (RFC 7515, section 4.1.9). */
const receiptType = 'postern-receipt'
const attachmentType = 'postern-attachment'

/** The first key signs; key ids are RFC 7638 thumbprints. */
export async function openReceiptSigner([key, ...others]: SigningKeys): Promise<ReceiptSigner> {
  const current = await publicJwk(key)
  const publicKeys = [current, ...(await Promise.all(others.map(publicJwk)))]
  const signed = async <T extends object>(content: T, typ: string): Promise<T & { readonly jws: string }> => {
    const payload = new TextEncoder().encode(JSON.stringify(content))
    const header = { alg: 'EdDSA', kid: current.kid, typ }
    return { ...content, jws: await new CompactSign(payload).setProtectedHeader(header).sign(key) }
  }
  return {
    publicKeys,
    sign: async (content) => await signed(content, receiptType),
    signAttachment: async (content) => await signed(content, attachmentType),
  }
}

async function publicJwk(key: KeyObject): Promise<JWK & { readonly kid: string }> {
  const jwk = await exportJWK(createPublicKey(key))
  const kid = await calculateJwkThumbprint(jwk, 'sha256')
  return { ...jwk, kid, alg: 'EdDSA', use: 'sig' }
}
