import type { ProblemDocument } from '@postern/contracts'
import { expect, test } from 'vitest'
import { refusedBy } from './failure.ts'

const lineOf = (fields: Partial<ProblemDocument>) =>
  refusedBy({
    type: 'about:blank',
    title: 'The body is not valid',
    status: 422,
    code: 'invalid_content',
    instance: 'r1',
    ...fields,
  }).message

const fault = (pointer: string, detail: string) => ({ pointer, code: 'invalid', detail })

test.each([
  ['a title that stands alone', {}, 'The body is not valid'],
  ['words of its own', { detail: 'The connector is paused.' }, 'The connector is paused.'],
  [
    'words that point to the errors, which stand there instead of them',
    { detail: 'See `errors` for details.', errors: [fault('/name', 'is missing'), fault('/key', 'is taken')] },
    'The body is not valid: /name is missing; /key is taken',
  ],
  [
    'words that say more than the errors',
    { detail: 'Send the file as the body.', errors: [fault('', 'is missing')] },
    'Send the file as the body: the body is missing',
  ],
  [
    'words that say more, and point to the errors',
    { detail: 'Nothing was taken in. See `errors` for the rows to mend.', errors: [fault('/0/name', 'is missing')] },
    'Nothing was taken in: /0/name is missing',
  ],
  [
    'words that hold what is wrong with the whole',
    { detail: 'The source cannot be read: it is a PDF.', errors: [fault('', 'it is a PDF')] },
    'The source cannot be read: it is a PDF.',
  ],
  [
    'a parameter',
    { detail: 'Say why.', errors: [{ parameter: 'reason', code: 'missing', detail: 'must be given' }] },
    'Say why: reason must be given',
  ],
])('a refusal is told by %s', (_what, fields, line) => {
  expect(lineOf(fields)).toBe(`${line} (invalid_content, request r1)`)
})
