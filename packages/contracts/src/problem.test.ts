import { describe, expect, test } from 'vitest'

import {
  type InputError,
  type ProblemCode,
  problemDocument,
  problemSchema,
  problemTypes,
  problemUri,
} from './problem.ts'

const codes = Object.keys(problemTypes).filter((code): code is ProblemCode => code in problemTypes)

const missing = (parameter: string) => ({ parameter, code: 'missing', detail: 'is missing' })

const detailOf = (errors: readonly InputError[]) => problemDocument('bad_request', 'req-1', { errors }).detail

describe.each(codes)('the problem %s', (code) => {
  test('has an error status, a title and a URI that leads back to it', () => {
    const { status, title } = problemTypes[code]
    expect(status).toBeGreaterThanOrEqual(400)
    expect(status).toBeLessThanOrEqual(599)
    expect(title).toMatch(/^[A-Z].*[^.]$/)
    expect(problemUri(code)).toMatch(/^\/problems\/[a-z]+(-[a-z]+)*$/)
    expect(problemUri(code).slice('/problems/'.length).replaceAll('-', '_')).toBe(code)
  })

  test('creates a document of the published schema', () => {
    const document = problemDocument(code, 'req-1', { detail: 'Mend it.' })
    expect(problemSchema.parse(document)).toEqual(document)
    expect(document).toEqual({
      type: problemUri(code),
      title: problemTypes[code].title,
      status: problemTypes[code].status,
      detail: 'Mend it.',
      code,
      instance: 'req-1',
    })
  })
})

describe('problem documents', () => {
  test('of different problems have different URIs and titles', () => {
    expect(new Set(codes.map(problemUri)).size).toBe(codes.length)
    expect(new Set(codes.map((code) => problemTypes[code].title)).size).toBe(codes.length)
  })

  test('about the same resource are equal to the byte, so that missing and forbidden look the same', () => {
    const one = JSON.stringify(problemDocument('not_found', 'req-1'))
    expect(JSON.stringify(problemDocument('not_found', 'req-1', { detail: undefined, errors: undefined }))).toBe(one)
    expect(one).toBe(
      '{"type":"/problems/not-found","title":"The resource does not exist","status":404,"code":"not_found","instance":"req-1"}',
    )
  })

  test('contain only what the caller must know', () => {
    const errors = [{ pointer: '/title', code: 'too_long', detail: 'at most 255 characters' }]
    const input = { errors, required_scope: 'read:findings', allowed: ['GET'], secret: 'x' }
    const document = problemDocument('invalid_content', 'req-1', input)
    expect(document).toMatchObject({ errors, required_scope: 'read:findings', allowed: ['GET'] })
    expect(document).not.toHaveProperty('secret')
  })

  test('without words of their own say those of their first errors', () => {
    expect(detailOf([missing('a')])).toBe('`a` is missing.')
    expect(detailOf([{ pointer: '', code: 'type', detail: 'must be an object' }])).toBe('The body must be an object.')
    expect(detailOf([{ pointer: '/title', code: 'unknown', detail: 'is unknown; did you mean `b`?' }])).toBe(
      '`title` is unknown; did you mean `b`?',
    )
    expect(detailOf([{ pointer: '/0/title', code: 'missing', detail: 'is missing.' }])).toBe('`/0/title` is missing.')
    expect(detailOf([{ pointer: '/0', code: 'missing', detail: 'is missing' }])).toBe('`/0` is missing.')
    expect(detailOf(['a', 'b', 'c', 'd'].map(missing))).toBe(
      '`a` is missing. `b` is missing. `c` is missing. 1 more error is in `errors`.',
    )
    expect(detailOf(['a', 'b', 'c', 'd', 'e'].map(missing))).toContain('2 more errors are in `errors`.')
    expect(problemDocument('bad_request', 'req-1', { detail: 'Mend it.', errors: [missing('a')] }).detail).toBe(
      'Mend it.',
    )
  })

  test('are 401 for rejected credentials, and 503 if these cannot be verified', () => {
    for (const code of ['missing_credentials', 'invalid_key', 'key_expired', 'key_revoked', 'invalid_token'] as const)
      expect(problemTypes[code].status).toBe(401)
    for (const code of ['auth_unavailable', 'revocation_unconfirmed'] as const)
      expect(problemTypes[code].status).toBe(503)
  })
})
