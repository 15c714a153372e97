import { describe, expect, test } from 'vitest'
import { datasetRules } from '../dataset/rules.ts'
import { replacingTargets, targetsOf, unknownTargets } from './targets.ts'

const to = (...targets: string[]) => targets.map((target) => ({ target, source: 'x' }))
const entities = datasetRules.auditable_entities

describe('a mapping is refused', () => {
  test('with a target that is no field of the dataset, nor a member of one', () => {
    const wrong = ['salary', 'owner.emial', 'inherent_risk.ratng', 'name.foo', 'constructor', 'owner.constructor']
    const customs = ['custom.__proto__', 'custom. region', `custom.${'x'.repeat(65)}`]
    expect(unknownTargets(to(...wrong, ...customs), entities)).toEqual([...wrong, ...customs].map((_, index) => index))
    const right = ['name', 'owner', 'owner.email', 'inherent_risk.rating', 'custom', 'custom.a.b c', 'status']
    expect(unknownTargets(to(...right), entities)).toEqual([])
    expect(unknownTargets(to('head.email', 'entities', 'custom.x', 'entities.0'), datasetRules.org_structure)).toEqual([
      2, 3,
    ])
  })

  test('if it sets a whole field after a member of it, but not in the other order', () => {
    expect(replacingTargets(to('owner.email', 'name', 'owner', 'custom.a', 'custom'))).toEqual([2, 4])
    expect(replacingTargets(to('owner', 'owner.email', 'owner.name', 'custom', 'custom.a', 'custom.a.b'))).toEqual([])
  })

  test('in words that name the targets that there are', () => {
    expect(targetsOf(datasetRules.people)).toEqual(['external_id', 'name', 'email', 'title', 'active'])
    const some = ['name', 'owner', 'owner.email', 'residual_risk.score', 'custom', 'custom.…']
    expect(targetsOf(entities)).toEqual(expect.arrayContaining(some))
  })
})
