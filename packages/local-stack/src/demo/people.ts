import type { PersonRef, PushedPerson } from '@postern/contracts'
import type { DemoProfile } from './profile.ts'
import { createRandom } from './random.ts'
import { firstNames, lastNames, titles } from './vocabulary.ts'

export interface DemoPeople {
  readonly rows: readonly PushedPerson[]
  /** Those who answer for findings. */
  readonly owners: readonly PersonRef[]
  /** Those who have left, and still have action plans. */
  readonly leavers: readonly PersonRef[]
  /** Those who check what others have done: never owners. */
  readonly validators: readonly PersonRef[]
}

const validators = 12

/**
 * The people of a tenant. INVARIANT: the same in every tenant, name by name and address by address, however many there
 * are: were people of one tenant ever matched with those of another, it would show.
 */
export function makePeople({ people }: Pick<DemoProfile, 'people'>, seed: string): DemoPeople {
  const random = createRandom(`${seed} people`)
  const taken = new Map<string, number>()
  const rows = Array.from({ length: people.all }, (_none, index): PushedPerson => {
    const [first, last] = [random.pick(firstNames), random.pick(lastNames)]
    const account = `${first}.${last}`.toLowerCase()
    const namesakes = (taken.get(account) ?? 0) + 1
    taken.set(account, namesakes)
    return {
      external_id: `P-${String(index + 1).padStart(5, '0')}`,
      name: `${first} ${last}`,
      email: `${account}${namesakes === 1 ? '' : namesakes}@people.example`,
      title: random.pick(titles),
      active: true,
    }
  })
  const { owners, leavers } = people
  const left = new Set(rows.slice(owners + validators, owners + validators + leavers))
  const referred = rows.map(({ name, email }): PersonRef => ({ name, ...(email === undefined ? {} : { email }) }))
  return {
    rows: rows.map((row) => (left.has(row) ? { ...row, active: false } : row)),
    owners: referred.slice(0, owners),
    validators: referred.slice(owners, owners + validators),
    leavers: referred.slice(owners + validators, owners + validators + leavers),
  }
}
