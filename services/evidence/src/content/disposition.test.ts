import { expect, test } from 'vitest'
import { attachmentOf } from './disposition.ts'

test.each([
  ['report 2026.csv', 'attachment; filename="report 2026.csv"'],
  ["it's (1) *.csv", 'attachment; filename="it\'s (1) *.csv"'],
  ['Prüfung.pdf', `attachment; filename="Pr_fung.pdf"; filename*=UTF-8''Pr%C3%BCfung.pdf`],
  ["ü'(1)*.pdf", `attachment; filename="_'(1)*.pdf"; filename*=UTF-8''%C3%BC%27%281%29%2A.pdf`],
  ['監査🔍.txt', `attachment; filename="___.txt"; filename*=UTF-8''%E7%9B%A3%E6%9F%BB%F0%9F%94%8D.txt`],
  ['a";b="c.txt', `attachment; filename="a_;b=_c.txt"; filename*=UTF-8''a%22%3Bb%3D%22c.txt`],
  ['100%41.txt', `attachment; filename="100_41.txt"; filename*=UTF-8''100%2541.txt`],
  ['a\r\nSet-Cookie: b', `attachment; filename="a__Set-Cookie: b"; filename*=UTF-8''a%0D%0ASet-Cookie%3A%20b`],
  ['a\\..\\b', `attachment; filename="a_.._b"; filename*=UTF-8''a%5C..%5Cb`],
  ['\ud800', `attachment; filename="_"; filename*=UTF-8''%EF%BF%BD`],
])('the name %j has only one reading for every client', (name, value) => {
  expect(attachmentOf(name)).toBe(value)
})
