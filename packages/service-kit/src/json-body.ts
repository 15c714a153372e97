import type { InputError } from '@postern/contracts'
import { bodyError, pointerTo } from './input-errors.ts'
import { type JsonFault, findJsonFault } from './json-scan.ts'
import { type ProblemError, problem } from './problem.ts'

export const maxJsonDepth = 32

/** Removes a byte order mark, as RFC 8259 §8.1 permits. */
const utf8 = new TextDecoder('utf-8', { fatal: true })

/** RFC 8259. Throws a problem with the position: 400, or 422 for text that no resource can contain. */
export function parseJsonBody(body: Buffer): unknown {
  if (body.length === 0) return undefined
  const text = textOf(body)
  if (text === '') return undefined
  const fault = findJsonFault(text, maxJsonDepth)
  if (fault === undefined) return JSON.parse(text)
  throw problemOf(fault, text)
}

const maxLines = 20_000

/** Skips empty lines, and the byte order marks of joined files. Throws a problem with line and index. */
export function parseJsonLines(body: Buffer): unknown[] {
  const text = textOf(body)
  const items: unknown[] = []
  for (let [start, number] = [0, 1]; start < text.length; number += 1) {
    const found = text.indexOf('\n', start)
    const end = found < 0 ? text.length : found
    const line = text.slice(text[start] === '\uFEFF' ? start + 1 : start, end)
    start = end + 1
    if (/^[ \t\r]*$/.test(line)) continue
    if (items.length === maxLines) {
      const errors = [bodyError(`must be at most ${maxLines} lines`, 'too_big')]
      throw problem('invalid_content', { errors })
    }
    const fault = findJsonFault(line, maxJsonDepth)
    if (fault !== undefined) throw problemOf({ ...fault, path: [items.length, ...fault.path] }, line, number)
    items.push(JSON.parse(line))
  }
  return items
}

function textOf(body: Buffer): string {
  try {
    return utf8.decode(body)
  } catch (cause) {
    throw problem('malformed_json', {
      detail: 'The body is not UTF-8.',
      errors: [bodyError('must be UTF-8', 'encoding')],
      cause,
    })
  }
}

function problemOf(fault: JsonFault, text: string, line = 1): ProblemError {
  return problem(fault.kind === 'invalid_text' ? 'invalid_content' : 'malformed_json', {
    detail: positionOf(fault, text, line),
    errors: [inputErrorOf(fault)],
  })
}

/** Scans JSON from Postern only if it is invalid. */
export function parseOurJson(body: Buffer): unknown {
  try {
    return JSON.parse(utf8.decode(body))
  } catch {
    return parseJsonBody(body)
  }
}

function inputErrorOf({ kind, path }: JsonFault): InputError {
  return { pointer: pointerTo(path), code: kind, detail: faultDetails[kind] }
}

const faultDetails = {
  syntax: 'is not valid JSON (RFC 8259)',
  too_deep: `is nested more than ${maxJsonDepth} levels deep`,
  duplicate_key: 'occurs more than once in its object',
  forbidden_key: 'is not allowed as a member name',
  inexact_number: 'is not a number that a double can represent: it is out of range or has too many digits',
  invalid_text: 'must not contain NUL or lone surrogates',
} as const satisfies Record<JsonFault['kind'], string>

/** The position, not the content, which may be confidential. */
function positionOf({ kind, offset }: JsonFault, text: string, first: number): string | undefined {
  if (kind !== 'syntax') return undefined
  const before = text.slice(0, offset)
  const line = first - 1 + before.split('\n').length
  return `The body is not valid JSON (RFC 8259): look at line ${line}, column ${offset - before.lastIndexOf('\n')}.`
}
