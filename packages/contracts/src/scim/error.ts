import { z } from 'zod'
import { type ProblemCode, type ProblemInput, problemTypes } from '../problem.ts'

export const scimBase = '/scim/v2'

export const scimMediaType = 'application/scim+json'

/** HOT PATH. */
export function isScimTarget(target: string): boolean {
  if (!target.startsWith(scimBase)) return false
  const next = target[scimBase.length]
  return next === undefined || next === '/' || next === '?'
}

/** RFC 7644, table 9. The code of a problem's first error can be one of them. */
export const scimTypes = [
  'invalidFilter',
  'tooMany',
  'uniqueness',
  'mutability',
  'invalidSyntax',
  'invalidPath',
  'noTarget',
  'invalidValue',
  'invalidVers',
  'sensitive',
] as const
export type ScimType = (typeof scimTypes)[number]

export const scimErrorUrn = 'urn:ietf:params:scim:api:messages:2.0:Error'

export const scimErrorSchema = z
  .object({
    schemas: z.array(z.literal(scimErrorUrn)).min(1).max(1),
    status: z.string().regex(/^[45][0-9]{2}$/),
    scimType: z.enum(scimTypes).optional(),
    detail: z.string().meta({ description: 'How to fix the request, and the id of the request' }),
  })
  .meta({
    id: 'ScimError',
    description: 'An error of SCIM 2.0 (RFC 7644 §3.12)',
    examples: [
      { schemas: [scimErrorUrn], status: '409', scimType: 'uniqueness', detail: 'Another user has this userName.' },
    ],
  })
export type ScimError = z.infer<typeof scimErrorSchema>

/** Returns the status of a problem, because SCIM has no 422 (RFC 7644, table 8). */
export function scimStatusOf(code: ProblemCode): number {
  const { status } = problemTypes[code]
  return status === 422 ? 400 : status
}

const typeOfCode: Partial<Record<ProblemCode, ScimType>> = {
  malformed_json: 'invalidSyntax',
  invalid_content: 'invalidValue',
}

export function scimError(code: ProblemCode, requestId: string, input: ProblemInput = {}): ScimError {
  const { title } = problemTypes[code]
  const [first] = input.errors ?? []
  const scimType = scimTypes.find((type) => type === first?.code) ?? typeOfCode[code]
  const places = (input.errors ?? []).slice(0, 5).map(({ pointer, parameter, detail }) => {
    const place = pointer ?? parameter ?? ''
    return place === '' ? `${detail}.` : `${place} ${detail}.`
  })
  const summary = input.detail ?? `${title}.`
  const words = [summary, ...places, `Request ${requestId}.`]
  return {
    schemas: [scimErrorUrn],
    status: String(scimStatusOf(code)),
    ...(scimType === undefined ? {} : { scimType }),
    detail: words.join(' '),
  }
}
