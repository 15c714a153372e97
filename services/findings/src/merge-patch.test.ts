import { expect, test } from 'vitest'
import { mergePatch, mergedMembers } from './merge-patch.ts'

// RFC 7396, appendix A.
test.each([
  ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
  ['{"a":"b"}', '{"a":null}', '{}'],
  ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
  ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
  ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
  ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
  ['["a","b"]', '["c","d"]', '["c","d"]'],
  ['{"a":"b"}', '["c"]', '["c"]'],
  ['{"a":"foo"}', 'null', 'null'],
  ['{"a":"foo"}', '"bar"', '"bar"'],
  ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
  ['[1,2]', '{"a":"b","c":null}', '{"a":"b"}'],
  ['{}', '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
])('%s patched with %s is %s', (target, patch, expected) => {
  expect(mergePatch(JSON.parse(target), JSON.parse(patch))).toEqual(JSON.parse(expected))
})

test('a merge patch can set a member with the name of a built-in property', () => {
  const merged = mergePatch({}, JSON.parse('{"__proto__":{"polluted":true},"constructor":"c"}'))
  expect(JSON.stringify(merged)).toBe('{"__proto__":{"polluted":true},"constructor":"c"}')
  expect(Reflect.get({}, 'polluted')).toBeUndefined()
})

test('a removed member becomes null, and members outside of the patch are not returned', () => {
  const owner = { email: 'ada@example.org', name: 'Ada' }
  expect(
    mergedMembers({ owner, title: 'T', cost: {} }, { owner: { name: null }, cost: null, title: undefined }),
  ).toEqual({ owner: { email: 'ada@example.org' }, cost: null })
})
