import { describe, expect, test } from 'vitest'

import { type ProblemCode, problemDocument, problemSchema, problemTypes, problemUri } from './problem.ts'

const codes = Object.keys(problemTypes).filter((code): code is ProblemCode => code in problemTypes)

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

  test('are 401 for rejected credentials, and 503 if these cannot be verified', () => {
    for (const code of ['missing_credentials', 'invalid_key', 'key_expired', 'key_revoked', 'invalid_token'] as const)
      expect(problemTypes[code].status).toBe(401)
    for (const code of ['auth_unavailable', 'revocation_unconfirmed'] as const)
      expect(problemTypes[code].status).toBe(503)
  })
})
