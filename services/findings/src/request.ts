import type { CreatedBy, InputError } from '@postern/contracts'
import {
  type Current,
  type ProblemError,
  type RequestInfo,
  versionProblem,
  tagsIn,
  problem,
} from '@postern/service-kit'

type Context = RequestInfo['context']

export function actorOf({ kind, id, label }: Context): CreatedBy {
  return { type: kind === 'service' ? 'connector' : kind, id, label }
}

/** Whether a response may contain more than id, reference, version and status. */
export function mayRead(context: Context): boolean {
  return context.scopes.includes('read:findings')
}

export function invalidContent(errors: readonly InputError[]): ProblemError {
  return problem('invalid_content', { errors })
}

/** Throws a 428 problem without If-Match. */
export function requireIfMatch({ raw }: Pick<RequestInfo, 'raw'>): void {
  if (raw.headers['if-match'] === undefined) {
    throw problem('precondition_required', { detail: 'Send the header If-Match with the ETag that you read.' })
  }
}

/** Throws a 412 problem. Ignores the day in the tag, because it changes only computed fields. */
export function assertVersion({ raw }: Pick<RequestInfo, 'raw'>, version: number): void {
  const given = raw.headers['if-match']
  if (given === undefined || given.trim() === '*') return
  const tags = tagsIn(given)
  if (tags.some((tag) => /^"(\d{1,10})\.\d{4}-\d{2}-\d{2}(?:\.[\w-]{22})?"$/.exec(tag)?.[1] === String(version))) return
  throw versionProblem(given)
}

/** The resource as the caller reads it, for a PATCH that may send all of it back. */
export function currentOf<R extends { readonly version: number }>(
  input: Pick<RequestInfo, 'context' | 'raw' | 'answer'>,
  stored: R,
  {
    show,
    stub,
    today,
  }: { readonly show: (stored: R) => object; readonly stub: (stored: R) => object; readonly today: string },
): Current {
  const shown = show(stored)
  const isReadable = mayRead(input.context)
  return {
    resource: isReadable ? shown : stub(stored),
    ...(isReadable ? {} : { hidden: Object.keys(shown) }),
    confirm: () => {
      requireIfMatch(input)
      assertVersion(input, stored.version)
      input.answer.etag(entityTag(stored.version, today))
    },
  }
}

/** Version, day (UTC) and a digest of expanded parts. */
export function entityTag(version: number, today: string, beside?: string): string {
  return beside === undefined ? `"${version}.${today}"` : `"${version}.${today}.${beside}"`
}

export function problemOfTakenId(
  kind: 'finding' | 'recommendation' | 'action_plan',
  constraint: string | undefined,
  error: unknown,
): unknown {
  if (constraint !== `${kind}_external_id_unique`) return error
  const name = kind.replace('_', ' ')
  return problem('conflict', {
    detail: `Another ${name} has this external_id. Use a different one.`,
    errors: [{ pointer: '/external_id', code: 'taken', detail: `is the external_id of another ${name}` }],
  })
}
