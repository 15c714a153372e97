import { type PosternClient, PosternProblem, createPosternClient } from '@postern/client'
import { CliError, rejectedByServerError, unavailableError, usageError, withWatchedRun } from './cli-error.ts'
import { describeConnectionFailure, describeForeignAnswer, describeRedirect } from './connection-failure.ts'
import type { CommandContext } from './session.ts'
import { readGatewaySettings } from './settings.ts'

export class WatchEndedError extends Error {
  readonly run: string

  constructor(run: string, cause: unknown) {
    super('watching the run ended', { cause })
    this.run = run
  }
}

/** Runs `work` with a client for the gateway and key of the settings. Throws a CliError. */
export async function withGateway<T>(context: CommandContext, work: (client: PosternClient) => Promise<T>): Promise<T> {
  const { url, key } = await readGatewaySettings(context.env)
  const client = openClient(url, key)
  try {
    return await work(client)
  } catch (error) {
    if (!(error instanceof WatchEndedError)) throw describeGatewayError(error, url)
    const cause = describeGatewayError(error.cause, url)
    throw cause instanceof CliError ? withWatchedRun(cause, error.run) : cause
  }
}

/** Turns an error of the client into a CliError, and returns other errors unchanged. */
export function describeGatewayError(error: unknown, url: string): unknown {
  if (error instanceof PosternProblem) {
    return isRedirect(error)
      ? unavailableError(describeRedirect(new URL(url)), error)
      : rejectedByServerError(error.problem)
  }
  if (error instanceof TypeError) return unavailableError(describeConnectionFailure(error, new URL(url)), error)
  if (error instanceof SyntaxError) return unavailableError(describeForeignAnswer(new URL(url)), error)
  if (error instanceof DOMException && error.name === 'TimeoutError') {
    return unavailableError(`${url} did not respond in time. It may have processed the request`, error)
  }
  return error
}

/** Another server answered, because the API sends no redirects. */
function isRedirect({ code, status }: PosternProblem): boolean {
  return code === 'unknown' && status >= 300 && status < 400
}

function openClient(baseUrl: string, key: string): PosternClient {
  try {
    return createPosternClient({ baseUrl, key })
  } catch {
    // Never show the value: it may be a part of a key.
    throw usageError('POSTERN_API_KEY must be a whole API key: postern_ and 49 characters')
  }
}
