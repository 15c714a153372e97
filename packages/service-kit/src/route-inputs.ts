import type { ProblemCode, Route } from '@postern/contracts'
import type { FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { assertDigest } from './content-digest.ts'
import type { Guard } from './guard.ts'
import { inputErrors } from './input-errors.ts'
import { normalizeBody, normalizeParameters } from './normalize-text.ts'
import { describeMediaTypes } from './problem-handler.ts'
import { problem } from './problem.ts'
import type { RequestInfo } from './request-info.ts'
import { type Current, parseChange } from './sent-back.ts'

export interface Inputs {
  readonly params: unknown
  readonly query: unknown
  readonly body: unknown
}

/** What a route reads from its requests. */
export interface InputRules {
  readonly guard: Guard
  readonly params: z.ZodType | undefined
  readonly query: z.ZodType
  readonly body: z.ZodType | undefined
  readonly mediaTypes: readonly string[]
  readonly isStreamed: boolean
  readonly contract?: Route
  readonly current?:
    | {
        readonly computed?: readonly string[]
        readonly read: (input: Omit<Inputs, 'body'> & RequestInfo) => Promise<Current | undefined>
      }
    | undefined
}

/** Requests between services are not normalized, because they may name texts that were stored before. */
function isFromClient({ contract, guard }: InputRules): boolean {
  const { access } = guard
  return contract !== undefined || (access.kind === 'internal' && access.callers.every((kind) => kind === 'operator'))
}

/** Throws a problem: 400 for parameters, 404 for ids in paths, 415 and 422 for bodies. */
export async function parseInputs(
  request: FastifyRequest,
  rules: InputRules,
  info: RequestInfo,
): Promise<Inputs & { readonly unchanged?: object }> {
  const [params, query] = isFromClient(rules)
    ? [normalizeParameters(request.params), normalizeParameters(request.query)]
    : [request.params, request.query]
  const parameters = {
    params: parse(rules.params, params, 'not_found', 'parameter'),
    query: parse(rules.query, query, 'bad_request', 'parameter'),
  }
  const { body: schema, contract, current } = rules
  const value = readBody(request, rules)
  if (schema === undefined) return { ...parameters, body: undefined }
  const path = contract?.path
  if (current !== undefined && !schema.safeParse(value).success) {
    const stored = await current.read({ ...parameters, ...info })
    if (stored !== undefined) {
      return { ...parameters, body: {}, ...parseChange({ schema, value, path }, stored, current.computed ?? []) }
    }
  }
  return { ...parameters, body: parse(schema, value, 'invalid_content', 'body', path) }
}

const noBytes = Buffer.alloc(0)

function readBody(request: FastifyRequest, rules: InputRules): unknown {
  const { body, mediaTypes, isStreamed, contract } = rules
  if (body === undefined && !(isStreamed && !mediaTypes.includes('*/*'))) return undefined
  const type = request.headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase()
  if (request.body !== undefined && (type === undefined || !mediaTypes.includes(type))) {
    throw problem('unsupported_media_type', { detail: describeMediaTypes(mediaTypes) })
  }
  if (body === undefined) return undefined
  if (request.body === undefined) assertDigest(request.headers['content-digest'], noBytes)
  return isFromClient(rules) ? normalizeBody(request.body, contract?.exactMembers) : request.body
}

function parse(
  schema: z.ZodType | undefined,
  value: unknown,
  code: ProblemCode,
  where: 'body' | 'parameter',
  path?: string,
): unknown {
  if (schema === undefined) return {}
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  // An invalid id gets the same 404 as an unknown one.
  if (code === 'not_found') throw problem(code)
  throw problem(code, { errors: inputErrors(parsed.error, where, { value, schema, path }) })
}
