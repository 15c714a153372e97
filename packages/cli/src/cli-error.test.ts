import type { ProblemDocument } from '@postern/contracts'
import { expect, test } from 'vitest'
import { rejectedByServerError } from './cli-error.ts'

const lineOf = (fields: Partial<ProblemDocument>) =>
  rejectedByServerError({
    type: 'about:blank',
    title: 'The body is not valid',
    status: 422,
    code: 'invalid_content',
    instance: 'r1',
    ...fields,
  }).message

const fault = (pointer: string, detail: string) => ({ pointer, code: 'invalid', detail })

test.each([
  ['only a title', {}, 'The body is not valid'],
  ['a detail', { detail: 'The connector is paused.' }, 'The connector is paused.'],
  [
    'a detail that says the errors',
    {
      detail: '`name` is missing. `key` is taken.',
      errors: [fault('/name', 'is missing'), fault('/key', 'is taken')],
    },
    '`name` is missing. `key` is taken.',
  ],
  [
    'a detail that says more than the errors',
    { detail: 'Send the file as the body.', errors: [fault('', 'is missing')] },
    'Send the file as the body: the body is missing',
  ],
  [
    'a detail that says only the first errors',
    {
      detail: '`a` is missing. `b` is missing. `c` is missing. 1 more error is in `errors`.',
      errors: [
        fault('/a', 'is missing'),
        fault('/b', 'is missing'),
        fault('/c', 'is missing'),
        fault('/d', 'is taken'),
      ],
    },
    '`a` is missing. `b` is missing. `c` is missing: /d is taken',
  ],
  [
    'a detail that includes the error of the whole body',
    { detail: 'The source cannot be read: it is a PDF.', errors: [fault('', 'it is a PDF')] },
    'The source cannot be read: it is a PDF.',
  ],
  [
    'a parameter',
    { detail: 'Say why.', errors: [{ parameter: 'reason', code: 'missing', detail: 'must be given' }] },
    'Say why: reason must be given',
  ],
])('a rejection is printed in one line with %s', (_what, fields, line) => {
  expect(lineOf(fields)).toBe(`${line} (invalid_content, request r1)`)
})
