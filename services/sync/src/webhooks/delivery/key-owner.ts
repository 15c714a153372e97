import { isEmailAddress } from '@postern/contracts'
import { ServiceUnavailableError } from '@postern/service-client'
import type { Universe } from '../../push/universe.ts'
import { readUser } from '../../scim/content.ts'
import type { TenantDb } from '@postern/tenant-db'
import type { DueDelivery } from '../rules.ts'
import type { WorkerSession } from '../../granted-work/session.ts'
import type { NoRecipient, Recipient } from './mail.ts'
import { type NotifiedKey, findDirectoryPerson, findNotifiedKey } from './store.ts'

interface Parts {
  readonly db: Pick<TenantDb, 'write'>
  readonly universe: Pick<Universe, 'findPersonEmail'>
  readonly session: Pick<WorkerSession, 'tenantId' | 'assertion'>
}

/** Finds the owner of the key that a delivery is about. `events`: the types that the endpoint subscribes to. */
export async function findKeyOwner(
  parts: Parts,
  events: readonly string[],
  { type, resourceId, eventId }: Pick<DueDelivery, 'type' | 'resourceId' | 'eventId'>,
): Promise<Recipient | NoRecipient> {
  if (type === 'webhook.test') return nobody('A test event is not about a key, so there is no owner.')
  const assertion = await parts.session.assertion()
  const key = await parts.db.write({ assertion }, async (tx) => await findNotifiedKey(tx, resourceId))
  if (key === undefined) return nobody('The key does not exist.')
  if (type === 'key.revoked' && key.isLeaked && events.includes('key.leaked')) {
    return nobody('The e-mail about key.leaked also says that the key was revoked.')
  }
  if (key.ownerType === null) return nobody('The key has no owner.')
  if (key.hasLeft) return nobody('The owner has left. Give the key another owner.')
  try {
    const address = key.contact ?? (await findAddress(parts, key, { assertion, eventId }))
    if (address === undefined || !isEmailAddress(address)) {
      return nobody('The directory has no e-mail address of the owner.')
    }
    return { addresses: [address], about: `Key: ${key.label} (ends with ${key.lastFour})` }
  } catch (error) {
    if (!(error instanceof ServiceUnavailableError)) throw error
    return { reason: 'The directory is unavailable, so the address of the owner is not known.', isRetryable: true }
  }
}

/** Finds the address of the active person with the name from the owner's last token. */
async function findAddress(
  { db, universe, session }: Parts,
  { directoryHash }: Pick<NotifiedKey, 'directoryHash'>,
  { assertion, eventId }: { readonly assertion: string; readonly eventId: string },
): Promise<string | undefined> {
  if (directoryHash === null) return undefined
  const person = await db.write({ assertion }, async (tx) => await findDirectoryPerson(tx, directoryHash))
  if (person === undefined) return undefined
  if (person.content !== null) return readUser(person.content).facts.email
  const caller = { tenantId: session.tenantId, assertion, runId: eventId, label: 'Postern', requestId: eventId }
  return await universe.findPersonEmail(caller, person.id)
}

function nobody(reason: string): NoRecipient {
  return { reason, isRetryable: false }
}
