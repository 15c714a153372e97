import { type PersonPatch, emailSchema } from '@postern/contracts'
import { maxLookedUpPeople } from '@postern/contracts/internal'
import type { RequestInfo } from '@postern/service-kit'
import { z } from 'zod'
import type { Universe } from './universe.ts'

export const personMembers = [
  'owner',
  'approver',
  'validated_by',
  'verified_by',
  'approved_by',
  'extension_approved_by',
] as const

export type NamingPeople = { readonly [member in (typeof personMembers)[number]]?: PersonPatch | null | undefined }

const named = z.object({ email: emailSchema, person_id: z.undefined().optional() })

/**
 * Returns a function that adds `person_id` for known e-mail addresses. If the universe service does not answer, people
 * stay unchanged, so that writes do not depend on it.
 */
export async function createPeopleLinker(
  universe: Universe,
  request: Pick<RequestInfo, 'context' | 'requestId' | 'log'>,
  bodies: readonly unknown[],
): Promise<<B extends NamingPeople>(body: B) => B> {
  const emails = new Set(bodies.flatMap(emailsIn))
  const ids = new Map<string, string>()
  if (emails.size > 0) {
    try {
      const all = [...emails]
      const parts = Array.from({ length: Math.ceil(all.length / maxLookedUpPeople) }, (_, part) =>
        all.slice(part * maxLookedUpPeople, (part + 1) * maxLookedUpPeople),
      )
      const answers = await Promise.all(parts.map(async (part) => await universe.people(request, part)))
      for (const { email, person_id: id } of answers.flat()) ids.set(email, id)
    } catch (error) {
      request.log.warn({ event: 'people_not_linked', request_id: request.requestId, err: error })
    }
  }
  return (body) => ({ ...body, ...toLinkedMembers(body, ids) })
}

function emailsIn(body: unknown): string[] {
  if (typeof body !== 'object' || body === null) return []
  return personMembers.flatMap((member) => {
    const person = named.safeParse(Reflect.get(body, member))
    return person.success ? [person.data.email.toLowerCase()] : []
  })
}

function toLinkedMembers(body: NamingPeople, ids: ReadonlyMap<string, string>): Readonly<Record<string, object>> {
  const linked: Record<string, object> = {}
  for (const member of personMembers) {
    const person = body[member]
    const id = person?.person_id === undefined ? ids.get(person?.email?.toLowerCase() ?? '') : undefined
    if (person !== undefined && person !== null && id !== undefined) linked[member] = { ...person, person_id: id }
  }
  return linked
}
