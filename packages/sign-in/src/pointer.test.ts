import { describe, expect, test } from 'vitest'
import { parsePointer, pointerTo, resolvePointer } from './pointer.ts'

const claims = {
  groups: ['one', 'two'],
  resource_access: { 'postern-console': { roles: ['admin'] } },
  'https://postern.example/roles': ['auditor'],
  'a~b': 1,
  '': 2,
}

describe('a JSON Pointer', () => {
  test.each([
    ['/groups', ['one', 'two']],
    ['/groups/1', 'two'],
    ['/resource_access/postern-console/roles', ['admin']],
    ['/https:~1~1postern.example~1roles', ['auditor']],
    ['/a~0b', 1],
    ['/', 2],
  ])('%s finds its value', (pointer, value) => expect(resolvePointer(claims, pointer)).toEqual(value))

  test.each(['/groups/01', '/groups/-', '/groups/length', '/none', '/none/more', '/__proto__', '/constructor', '/a~b'])(
    '%s finds nothing',
    (pointer) => expect(resolvePointer(claims, pointer)).toBeUndefined(),
  )

  test.each(['', 'groups', '$.groups', '/a~2b', '/a~'])('is not %j', (text) =>
    expect(parsePointer(text)).toBeUndefined(),
  )

  test.each(Object.keys(claims))('leads to the member %j by its name', (name) =>
    expect(resolvePointer(claims, pointerTo(name))).toEqual(Reflect.get(claims, name)),
  )
})
