import { hash } from 'node:crypto'
import { parseContentDigest } from '@postern/contracts'
import { bodyError } from './input-errors.ts'
import { type ProblemError, problem } from './problem.ts'

export function unreadableDigestProblem(header: 'Content-Digest' | 'Repr-Digest', reason: string): ProblemError {
  return problem('bad_request', {
    detail: `\`${header}\` ${reason}.`,
    errors: [{ parameter: header, code: 'invalid', detail: reason }],
  })
}

export function assertDigest(header: string | string[] | undefined, body: Uint8Array): void {
  const given = parseContentDigest(Array.isArray(header) ? header.join(',') : header)
  if (given.kind === 'none') return
  if (given.kind === 'malformed') throw unreadableDigestProblem('Content-Digest', given.reason)
  for (const [algorithm, hex] of given.digests) {
    if (hash(algorithm.replace('-', ''), body, 'hex') === hex) continue
    throw digestMismatch(algorithm)
  }
}

/** Returns the announced SHA-256 in hexadecimal, if any. Throws a problem for a malformed header. */
export function parseSha256(header: string | string[] | undefined): string | undefined {
  const given = parseContentDigest(Array.isArray(header) ? header.join(',') : header, ['sha-256'])
  if (given.kind === 'malformed') throw unreadableDigestProblem('Content-Digest', given.reason)
  return given.kind === 'none' ? undefined : given.digests.get('sha-256')
}

export function digestMismatch(algorithm: 'sha-256' | 'sha-512'): ProblemError {
  const name = algorithm.toUpperCase()
  return problem('digest_mismatch', {
    detail: `The ${name} of the body differs from the announced one. The request had no effect; send it again.`,
    errors: [bodyError(`differs from the announced ${name}`, 'digest_mismatch')],
  })
}
