import { hash } from 'node:crypto'
import { parseContentDigest } from '@postern/contracts'
import { bodyError } from './input-errors.ts'
import { type ProblemError, problem } from './problem.ts'

/** The problem for a digest in a header that cannot be checked. */
export function unreadableDigest(header: 'Content-Digest' | 'Repr-Digest', reason: string): ProblemError {
  return problem('bad_request', {
    detail: `The ${header} header cannot be checked.`,
    errors: [{ parameter: header, code: 'invalid', detail: reason }],
  })
}

/** Throws a problem unless a whole body is the one that its Content-Digest, where there is one, was computed over. */
export function assertDigest(header: string | string[] | undefined, body: Uint8Array): void {
  const given = parseContentDigest(Array.isArray(header) ? header.join(',') : header)
  if (given.kind === 'none') return
  if (given.kind === 'malformed') throw unreadableDigest('Content-Digest', given.reason)
  for (const [algorithm, hex] of given.digests) {
    // Both are known to the sender: there is nothing here that the time of a comparison could tell.
    if (hash(algorithm.replace('-', ''), body, 'hex') === hex) continue
    throw digestMismatch(algorithm)
  }
}

/** The digest of a body that is read as it comes, which its Content-Digest announces, in hex; undefined where none is announced. Throws a problem where it cannot be checked. */
export function announcedSha256(header: string | string[] | undefined): string | undefined {
  const given = parseContentDigest(Array.isArray(header) ? header.join(',') : header, ['sha-256'])
  if (given.kind === 'malformed') throw unreadableDigest('Content-Digest', given.reason)
  return given.kind === 'none' ? undefined : given.digests.get('sha-256')
}

/** The problem for a body that is not the one that was announced. */
export function digestMismatch(algorithm: 'sha-256' | 'sha-512'): ProblemError {
  const name = algorithm.toUpperCase()
  return problem('digest_mismatch', {
    detail: `The ${name} of the body is not the one that was announced. Nothing was done; send it again.`,
    errors: [bodyError(`has another ${name} than the one that was announced`, 'digest_mismatch')],
  })
}
