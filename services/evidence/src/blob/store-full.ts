import { problem } from '@postern/service-kit'

export function storeFullProblem(cause: unknown): Error {
  return problem('insufficient_storage', {
    detail:
      'The evidence store is full. There is no receipt; send the file again later, or resume a resumable upload at the offset that HEAD returns.',
    retryAfterSeconds: 300,
    cause,
  })
}
