import { describe, expect, test } from 'vitest'
import { boundaryOf, createBodyHash } from './body-hash.ts'

const one = '------------------------d74496d66958873e'
const other = '4b9a5d3c8f2e41d7a6b0c1e2f3a4b5c6'

const formOf = (boundary: string, ...parts: string[]) =>
  `${parts.map((part) => `--${boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\n${part}\r\n`).join('')}--${boundary}--\r\n`

function digestOf(boundary: string | undefined, body: string, chunkBytes = 1_000_000): string {
  const hash = createBodyHash(boundary)
  const bytes = Buffer.from(body)
  for (let at = 0; at < bytes.length; at += chunkBytes) hash.update(bytes.subarray(at, at + chunkBytes))
  return hash.digest()
}

describe('a form', () => {
  test('is the same with another boundary, however it is divided into chunks', () => {
    const digests = [1, 2, 7, 41, 1000].flatMap((chunkBytes) =>
      [one, other].map((boundary) => digestOf(boundary, formOf(boundary, 'x', 'y-'.repeat(60)), chunkBytes)),
    )
    expect(new Set(digests).size).toBe(1)
  })

  test.each([
    ['another part', formOf(one, 'x', 'z')],
    ['a part less', formOf(one, 'x')],
    ['the same bytes in another division', formOf(one, 'xy', '')],
    ['a part that speaks of its boundary', formOf(one, 'x', `y--${other}`)],
    ['an end that is missing', formOf(one, 'x', 'y').slice(0, -4)],
  ])('is another with %s', (_what, body) => {
    expect(digestOf(one, body)).not.toBe(digestOf(one, formOf(one, 'x', 'y')))
  })

  test('differs even for forms with more parts than are accepted', () => {
    const parts = Array.from({ length: 2000 }, (_, index) => `${index}`)
    expect(digestOf(one, formOf(one, ...parts, 'a'))).not.toBe(digestOf(one, formOf(one, ...parts, 'b')))
  })
})

test.each([
  [`multipart/form-data; boundary=${one}`, one],
  [`Multipart/Form-Data;boundary="${other}"`, other],
  ['multipart/form-data; boundary=short', undefined],
  [`multipart/form-data; boundary=${one}; boundary=${other}`, undefined],
  [`multipart/form-data; boundary="${one}`, undefined],
  [`multipart/mixed; boundary=${one}`, undefined],
  ['text/csv', undefined],
  [undefined, undefined],
])('the boundary of %s is %s', (contentType, boundary) => {
  expect(boundaryOf(contentType)).toBe(boundary)
})
