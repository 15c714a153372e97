import { describe, expect, test } from 'vitest'
import { endOf, escapeMarkup, markupLine, toOneLine, startOf, writableTime, xmlText } from './oscal.ts'

describe('text in a plan of action is escaped', () => {
  test.each([
    ['# of accounts', String.raw`\# of accounts`],
    ['1. x', String.raw`1\. x`],
    ['12) x', String.raw`12\) x`],
    ['Total\n-----\n12', 'Total\n\\-----\n12'],
    ['Total\n=====', 'Total\n\\====='],
    ['+ item', String.raw`\+ item`],
    ['- item', String.raw`\- item`],
    ['a - b + c # d', 'a - b + c # d'],
    ['&copy; &lt;b&gt; &#65;', String.raw`\&copy; \&lt;b\&gt; \&#65;`],
    ['    code', '&#32;   code'],
    ['\tcode', '&#9;code'],
    ['   # deep', String.raw`&#32;  \# deep`],
    ['line  \nbreak', 'line &#32;\nbreak'],
    ['|a|b|\n|-|-|', '\\|a\\|b\\|\n\\|-\\|-\\|'],
    ['a\n:-', 'a\n\\:-'],
    ['[a](https://a.example) ![b](c)', String.raw`\[a\](https://a.example) !\[b\](c)`],
    ['<script>', String.raw`\<script\>`],
    ['{{ insert: param, a }}', String.raw`\{\{ insert: param, a \}\}`],
    ['a\r\n# b\r# c', 'a\n\\# b\n\\# c'],
  ])('%j', (text, escaped) => {
    expect(escapeMarkup(text)).toBe(escaped)
  })

  test('in a one-line title', () => {
    expect(markupLine('  # of\naccounts ')).toBe(String.raw`\# of accounts`)
  })
})

test('a character that XML does not allow is replaced', () => {
  expect(xmlText('\u001b[0m a\ufffeb\uffffc\ud800d \ud83d\ude00\t\n')).toBe(
    '\ufffd[0m a\ufffdb\ufffdc\ufffdd \ud83d\ude00\t\n',
  )
  expect(escapeMarkup('\u001b')).toBe('\ufffd')
  expect(toOneLine('a\u001bb')).toBe('a\ufffdb')
})

// The pattern of NIST's schema for OSCAL 1.2, which takes the year of a leap day before 2000 to have two digits.
const leapDay = /^((2000|2400|2800|(19|2[0-9](0[48]|[2468][048]|[13579][26])))-02-29)/

test.each(['1904', '1960', '1996'])('29 February %s is written as the same time with an offset', (year) => {
  expect(leapDay.test(`${year}-02-29`)).toBe(false)
  for (const [written, at] of [
    [startOf(`${year}-02-29`), `${year}-02-29T00:00:00Z`],
    [endOf(`${year}-02-29`), `${year}-02-29T23:59:59Z`],
    [writableTime(`${year}-02-29T11:59:59.999Z`), `${year}-02-29T11:59:59.999Z`],
    [writableTime(`${year}-02-29T12:00:00.001Z`), `${year}-02-29T12:00:00.001Z`],
  ] as const) {
    expect(written).not.toContain('-02-29')
    expect(Date.parse(written ?? '')).toBe(Date.parse(at))
  }
})

test.each(['1996-02-28', '2000-02-29', '2024-02-29'])('%s is written unchanged', (day) => {
  expect(startOf(day)).toBe(`${day}T00:00:00Z`)
})
