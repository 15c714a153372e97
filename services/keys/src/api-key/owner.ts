import type { KeyOwner, OwnerChoice } from '@postern/contracts'
import { problem } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { Actor } from '../actor.ts'
import { findMember } from '../member/store.ts'
import { assertAllowed } from './assert-allowed.ts'
import { decideText } from './rules.ts'

/** `name` is the owner's name at that time. */
export type Owner = Pick<KeyOwner, 'type' | 'id' | 'name' | 'contact'>

/** Returns the chosen owner. Throws a 422 problem unless it is a team, the actor or an active person of the tenant. */
export async function resolveOwner(tx: Tx, choice: OwnerChoice, actor: Actor): Promise<Owner> {
  if (choice.type === 'team') {
    return {
      type: 'team',
      id: null,
      name: assertAllowed(decideText('/owner/name', choice.name)),
      contact: choice.contact,
    }
  }
  const member = await findMember(tx, choice.id)
  if (member === undefined) {
    // A first sign-in is reported within a minute.
    if (actor.type === 'user' && actor.id === choice.id) return ownerOf(actor)
    throw ownerProblem('unknown_person', 'must be the id of a person of this tenant; `GET /members` lists them')
  }
  if (member.leftAt !== null)
    throw ownerProblem('has_left', 'must be an active person; the directory deactivated this one')
  return { type: 'person', id: choice.id, name: member.name, contact: null }
}

/** The owner of a new key if nobody chose one: the person who creates it. */
export function defaultOwner(actor: Actor): Owner | null {
  return actor.type === 'user' ? ownerOf(actor) : null
}

function ownerOf({ id, label }: Actor): Owner {
  return { type: 'person', id, name: label, contact: null }
}

function ownerProblem(code: string, detail: string): Error {
  return problem('invalid_content', {
    detail: 'See `errors` for details.',
    errors: [{ pointer: '/owner/id', code, detail }],
  })
}
