import { expect, test } from 'vitest'
import { assertIfMatch, matchesEtag } from './etag.ts'
import { ProblemError } from './problem.ts'

function problemOf(given: string, etag = '"1"'): ProblemError {
  try {
    assertIfMatch({ raw: { headers: { 'if-match': given } } }, etag)
  } catch (error) {
    if (error instanceof ProblemError) return error
    throw error
  }
  throw new Error(`If-Match ${given} was taken`)
}

/** The code with which a change is refused whose `If-Match` is this, of a resource with the tag `"1"`. */
function refusalOf(
  given: string | undefined,
  etag = '"1"',
  partOf?: Parameters<typeof assertIfMatch>[2],
): string | undefined {
  try {
    assertIfMatch({ raw: { headers: given === undefined ? {} : { 'if-match': given } } }, etag, partOf)
    return undefined
  } catch (error) {
    if (error instanceof ProblemError) return error.code
    throw error
  }
}

test('a change must name the version that it changes', () => {
  expect(refusalOf(undefined)).toBe('precondition_required')
})

test.each(['"2"', '"11"', '1', '', '"1', '"2", "3"', 'w/"1"'])(
  'If-Match %j names another state of the resource',
  (given) => {
    expect(refusalOf(given)).toBe('precondition_failed')
  },
)

test.each(['W/"1"', 'W/"1", "2"', '"2", W/"1"'])('a weak tag does not allow a change: If-Match %j', (given) => {
  expect(refusalOf(given)).toBe('precondition_failed')
  expect(refusalOf(given, 'W/"1"')).toBe('precondition_failed')
})

test.each(['"1"', ' "1" ', '"2", "1"', '"2","1"', 'W/"1", "1"', '*', ' * '])(
  'If-Match %j lets the change be made',
  (given) => {
    expect(refusalOf(given)).toBeUndefined()
  },
)

test.each([
  ['"2"', 'Read the resource again'],
  ['W/"2", "3"', 'Read the resource again'],
  ['1', 'with its quotes'],
  ['"1', 'with its quotes'],
  ['', 'with its quotes'],
  ['W/"1"', 'without `W/`'],
])('the problem for If-Match %j says: %s', (given, words) => {
  expect(problemOf(given).options.detail).toContain(words)
})

const firstPart = (tag: string): string | undefined => /^"(\d+)\.\d+"$/.exec(tag)?.[1]

test.each(['"2.7"', '"1"', '"1.7', 'W/"1.7"', '"2.7", "3.7"'])(
  'If-Match %j fails if the part of the resource that clients can change has another version',
  (given) => {
    expect(refusalOf(given, '"1.8"', firstPart)).toBe('precondition_failed')
    expect(refusalOf('W/"1.8"', 'W/"1.8"', firstPart)).toBe('precondition_failed')
  },
)

test.each(['"1.8"', '"1.7"', '"2.7", "1.7"', '*'])(
  'If-Match %j passes if only the rest of the resource has changed',
  (given) => {
    expect(refusalOf(given, '"1.8"', firstPart)).toBeUndefined()
  },
)

test.each(['"1"', 'W/"1"', '"2", W/"1"', '*'])('a client that has %j gets 304', (given) => {
  expect(matchesEtag(given, '"1"')).toBe(true)
  expect(matchesEtag(given, 'W/"1"')).toBe(true)
})

test.each(['"2"', 'W/"2"', '1', ''])('a client that has %j gets the resource', (given) => {
  expect(matchesEtag(given, '"1"')).toBe(false)
})

const codings = [
  '"1-gzip"',
  '"1-br"',
  '"1-zstd"',
  '"1--gzip"',
  '"1;gzip"',
  '"1:br"',
  '"1-deflate"',
  '"1-gunzip"',
  '"1;gz"',
  // Two proxies in a row.
  '"1-gzip-gunzip"',
  '"1-gzip;br"',
]

test.each(codings)('a tag %s, to which a proxy has added a content coding, names the same version', (tag) => {
  expect(matchesEtag(tag, '"1"')).toBe(true)
  expect(matchesEtag(`"0", W/${tag}`, '"1"')).toBe(true)
  expect(refusalOf(tag)).toBeUndefined()
})

test.each(codings)('a tag %s of an older version is refused, and so is a weak one', (tag) => {
  expect(matchesEtag(tag, '"2"')).toBe(false)
  expect(refusalOf(tag, '"2"')).toBe('precondition_failed')
  expect(refusalOf(`W/${tag}`)).toBe('precondition_failed')
})
