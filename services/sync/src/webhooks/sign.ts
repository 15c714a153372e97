import { randomBytes } from 'node:crypto'
import type { KeyRing } from '@postern/signed-context'
import { Webhook } from 'standardwebhooks'
import { openSecret, sealSecret } from '../secret/seal.ts'
import type { SealedSecret } from '../secret/store.ts'

interface Endpoint {
  readonly tenantId: string
  readonly endpointId: string
}

const secretBytes = 32

export interface NewSecret {
  readonly id: string
  readonly value: string
  readonly sealed: string
}

export function createSecret(ring: KeyRing, { tenantId, endpointId }: Endpoint): NewSecret {
  const id = crypto.randomUUID()
  const value = `whsec_${randomBytes(secretBytes).toString('base64')}`
  return { id, value, sealed: sealSecret(ring, { tenantId, connectorId: endpointId, name: id }, value) }
}

/** Throws a SealError. */
export function openSigners(
  ring: KeyRing,
  { tenantId, endpointId }: Endpoint,
  secrets: readonly SealedSecret[],
): readonly Webhook[] {
  return secrets.map(
    ({ name, sealed }) => new Webhook(openSecret(ring, { tenantId, connectorId: endpointId, name }, sealed)),
  )
}

/** The headers of Standard Webhooks 1.0, with a signature for each secret. */
export function signHeaders(
  signers: readonly Webhook[],
  { id, at, body }: { readonly id: string; readonly at: Date; readonly body: string },
): Readonly<Record<string, string>> {
  return {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': signers.map((signer) => signer.sign(id, at, body)).join(' '),
  }
}
