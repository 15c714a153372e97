import { expect, test } from 'vitest'
import { portablePattern } from './pattern.ts'

test.each([
  [String.raw`^[^\p{Cc}\p{Cs},]{1,255}$`, String.raw`^[^\x00-\x1f\x7f-\x9f,]{1,255}$`],
  [String.raw`^[^\u0085\u2028]*$`, '^[^\\x85\u2028]*$'],
  ['^[^[(]+$', String.raw`^[^\[(]+$`],
  [String.raw`^\[[a-z]$`, String.raw`^\[[a-z]$`],
  ['^(?:a|b){1,3}$', '^(?:a|b){1,3}$'],
  [String.raw`^\/[^/]\\/$`, String.raw`^/[^/]\\/$`],
])('%s becomes a pattern for every language', (pattern, portable) => {
  expect(portablePattern(pattern)).toBe(portable)
})

test.each([
  ['without anchors, which some tools add', '[^\\s]'],
  ['with letters of all scripts, which Python does not know', String.raw`^\p{L}+$`],
  ['that looks ahead, which Go cannot', '^(?=a)a$'],
  ['that repeats more often than Go does', '^a{2,1020}$'],
])('a pattern %s has no portable form', (_why, pattern) => {
  expect(portablePattern(pattern)).toBeUndefined()
})
