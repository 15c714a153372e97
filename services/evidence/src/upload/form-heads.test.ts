import { Busboy } from '@fastify/busboy'
import { describe, expect, test } from 'vitest'
import { createHeadScanner, findBoundary } from './form-heads.ts'

/** Returns the heads of a form that arrives in chunks of `size` bytes. */
function headsOf(form: string, size = form.length): (string | undefined)[] {
  const heads: (string | undefined)[] = []
  const scan = createHeadScanner('b-1', (head) => void heads.push(head))
  const bytes = Buffer.from(form, 'latin1')
  for (let at = 0; at < bytes.length; at += size) scan(bytes.subarray(at, at + size))
  return heads
}

/** Returns the number of parts that the parser finds. */
async function countParsedParts(form: string): Promise<number> {
  const parser = new Busboy({
    headers: { 'content-type': 'multipart/form-data; boundary=b-1' },
    isPartAFile: () => true,
  })
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let parts = 0
  parser.on('file', (_name, stream) => {
    parts += 1
    stream.resume()
  })
  parser.on('finish', resolve).on('error', reject)
  parser.end(Buffer.from(form, 'latin1'))
  await promise
  return parts
}

const head = (name: string): string => `Content-Disposition: form-data; name="${name}"`
const part = (name: string, content: string): string => `--b-1\r\n${head(name)}\r\n\r\n${content}\r\n`
const end = '--b-1--\r\n'

describe('the scanner calls back with the head of each part', () => {
  test.each([
    ['of a form', part('a', 'x') + part('b', '') + end, ['a', 'b']],
    [
      'of content that looks like a delimiter',
      part('a', '\r\n--b-\r\n\r\n--b-0\r\n-') + part('b', 'x--b-1') + end,
      ['a', 'b'],
    ],
    ['behind a preamble, and not behind the end', `preamble\r\n${part('a', 'x')}${end}${part('b', 'x')}`, ['a']],
    ['of long content', part('a', 'x'.repeat(500)) + part('b', 'y'.repeat(500)) + end, ['a', 'b']],
  ])('%s, in chunks of any size, as many as the parser finds', async (_what, form, names) => {
    for (let size = 1; size <= form.length; size += 1) {
      expect(headsOf(form, size)).toEqual(names.map((name) => `\r\n${head(name)}`))
    }
    expect(await countParsedParts(form)).toBe(names.length)
  })

  test.each([
    ['a part without a head', `--b-1\r\n\r\nx\r\n${end}`, ['']],
    ['a line without a colon', `--b-1\r\nno colon\r\n\r\nx\r\n${end}`, ['\r\nno colon']],
    ['text behind a boundary', `--b-1 \r\n${head('a')}\r\n\r\nx\r\n${end}`, [undefined]],
    ['one dash behind a boundary', `--b-1-\r\n${head('a')}\r\n\r\nx\r\n${end}`, [undefined]],
    ['a boundary in a head', `--b-1\r\n${head('a')}\r\n--b-1\r\n${head('b')}\r\n\r\nx\r\n${end}`, [undefined]],
  ])('also of %s', (_what, form, heads) => {
    for (let size = 1; size <= form.length; size += 1) expect(headsOf(form, size)).toEqual(heads)
  })

  test('that has no end within the limit', () => {
    const [found, ...others] = headsOf(`--b-1\r\nX-Long: ${'x'.repeat(9000)}`, 1000)
    expect(found?.length).toBeGreaterThan(8192)
    expect(others).toEqual([])
  })
})

test.each([
  ['multipart/form-data; boundary=b-1', 'b-1'],
  ['Multipart/Form-Data ;charset=utf-8; Boundary="b 1:x"', 'b 1:x'],
  [' multipart/form-data; boundary=b ; ', 'b'],
  ['multipart/form-data', undefined],
  [`multipart/form-data${' '.repeat(60_000)}x`, undefined],
  ['multipart/form-data; boundary=', undefined],
  ['multipart/form-data; boundary="b "', undefined],
  [`multipart/form-data; boundary=${'b'.repeat(71)}`, undefined],
  ['multipart/form-data; boundary=a; boundary=b', undefined],
  ['multipart/mixed; boundary=a', undefined],
])('the boundary of %.60s is %s', (contentType, boundary) => {
  expect(findBoundary(contentType)).toBe(boundary)
})
