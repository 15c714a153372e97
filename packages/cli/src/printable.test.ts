import { expect, test } from 'vitest'
import { printable, printableJson, printableLines } from './printable.ts'
import { run } from './run.ts'

const hostile = '\u001b[2J\u009b31mred\u202e\u0007\u2028next\rback'

test('a text cannot steer the terminal or start a new line', () => {
  expect(printable(`${hostile}\n`)).toBe('?[2J?31mred???next?back?')
  expect(printableLines(`a\u001b\nb`)).toBe('a?\nb')
})

test('letters, emoji and joiners are unchanged', () => {
  const text = 'Prüfung 審査 👩‍🔧 نمی‌خواهم'
  expect(printable(text)).toBe(text)
})

test('JSON keeps its meaning and cannot steer the terminal', () => {
  const json = printableJson(JSON.stringify({ [hostile]: hostile }, undefined, 2))
  expect(json.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\u2028\u202e]/u)
  expect(JSON.parse(json)).toEqual({ [hostile]: hostile })
})

test.each([
  ['an unknown command', ['\u001b[31mkeys']],
  ['an unknown option', ['keys', 'list', '--\u001b]0;title\u0007']],
  ['the name of a file', ['verify-log', '\u001b[31mlog\nforged line', '--checkpoints', 'a', '--jwks', 'b']],
])('a refusal cannot steer the terminal: %s', async (_what, args) => {
  for (const given of [args, [...args, '--json']]) {
    let err = ''
    await run(given, {}, { out: () => expect.fail('nothing was to be printed'), err: (text) => (err += text) })
    expect(err.trimEnd()).toMatch(/^\P{Cc}+$/u)
  }
})
