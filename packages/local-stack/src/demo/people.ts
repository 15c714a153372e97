import type { PersonRef, PushedPerson } from '@postern/contracts'
import { createRandom } from './random.ts'
import { type Scenario, readNames } from './scenario.ts'

export interface DemoPeople {
  readonly rows: readonly PushedPerson[]
  readonly owners: readonly PersonRef[]
  readonly leavers: readonly PersonRef[]
  readonly validators: readonly PersonRef[]
}

const validators = 12

export function makePeople({ counts: { people } }: Scenario, seed: string): DemoPeople {
  const { firstNames, lastNames, titles } = readNames()
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
