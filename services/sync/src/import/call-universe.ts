import { ServiceUnavailableError } from '@postern/service-client'
import { problem } from '@postern/service-kit'
import { ImportConflictError } from './imports.ts'

/** Calls the universe on a client's behalf. Throws 503 if it is unavailable. */
export async function callUniverse<Answer>(call: () => Promise<Answer>): Promise<Answer> {
  try {
    return await call()
  } catch (error) {
    throw asProblem(error)
  }
}

/** Streams from the universe on a client's behalf. Throws 503 if it is unavailable. */
export async function* streamUniverse<Item>(items: AsyncIterable<Item>): AsyncGenerator<Item> {
  try {
    yield* items
  } catch (error) {
    throw asProblem(error)
  }
}

function asProblem(error: unknown): unknown {
  if (!(error instanceof ServiceUnavailableError || error instanceof ImportConflictError)) return error
  const detail = 'The universe service is unavailable. Try again.'
  return problem('service_unavailable', { detail, retryAfterSeconds: 5, cause: error })
}
