import { maxAttachments } from '@postern/contracts'
import { type RequestInfo, bodyError, problem } from '@postern/service-kit'
import { storeFullProblem } from '../blob/store-full.ts'
import type { RecordFailure } from './store.ts'

export function emptyFileProblem(): Error {
  return problem('invalid_content', { detail: 'The file is empty. Send its bytes.', errors: [bodyError('is empty')] })
}

export function fileTooLargeProblem(): Error {
  return problem('content_too_large', { detail: 'The file exceeds the size limit for evidence.' })
}

/** `reason`: why files of this kind are not accepted. */
export function kindProblem(reason: string): Error {
  return problem('unsupported_media_type', { detail: reason })
}

export function digestMismatchProblem(): Error {
  return problem('digest_mismatch', {
    detail: 'The SHA-256 of the body differs from the announced one. The file was not stored; send it again.',
    errors: [bodyError('differs from the announced SHA-256', 'digest_mismatch')],
  })
}

/** `reason`: what is wrong with the form. */
export function formProblem(reason: string): Error {
  return problem('invalid_content', { detail: reason, errors: [bodyError(reason)] })
}

export function brokenOffProblem(): Error {
  return problem('bad_request', {
    detail: 'The upload is incomplete. Send the file again.',
    errors: [bodyError('broke off')],
  })
}

/** Throws if the client is gone. Call it just before the commit: the gateway cuts connections of revoked keys. */
export function assertAwaited({ raw }: RequestInfo['raw']): void {
  if (raw.socket.destroyed || raw.socket.readableEnded) throw brokenOffProblem()
}

export function replacedProblem(): Error {
  return problem('conflict', { detail: 'The file has a newer version. Revise that one.' })
}

export function quotaProblem(quotaBytes: number): Error {
  return problem('quota_exceeded', {
    detail: `The tenant can store ${quotaBytes} bytes of evidence, including open resumable uploads, and this file would exceed that. There is no receipt; a resumable upload keeps the bytes that have arrived.`,
  })
}

export function tooSlowProblem(cause?: unknown): Error {
  return problem('request_timeout', {
    detail:
      'The upload took too long for one request. The file was not stored; send it as a resumable upload (POST /api/v1/evidence/uploads).',
    cause,
  })
}

export function scannerUnavailableProblem(cause: unknown): Error {
  return problem('service_unavailable', {
    detail: 'The malware scanner does not respond, and files are not accepted unscanned. Send the file again later.',
    retryAfterSeconds: 30,
    cause,
  })
}

/** Unexpected errors are returned unchanged. */
export function recordingProblem(failure: RecordFailure, cause: unknown): unknown {
  switch (failure) {
    case 'storage_full':
      return storeFullProblem(cause)
    case 'assertion_refused':
      return tooSlowProblem(cause)
    case 'unavailable':
      return problem('service_unavailable', {
        detail: 'The upload could not be recorded, and there is no receipt. Send the file again.',
        retryAfterSeconds: 5,
        cause,
      })
    case 'replaced':
      return replacedProblem()
    case 'too_many_attachments': {
      const detail = `A file may be attached to at most ${maxAttachments} test procedures.`
      return problem('invalid_content', {
        detail,
        errors: [{ pointer: '/test_procedures', code: 'too_many', detail }],
        cause,
      })
    }
    case 'unexpected':
      return cause
    default:
      return failure satisfies never
  }
}
