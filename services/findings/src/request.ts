import type { CreatedBy, InputError } from '@postern/contracts'
import { type ProblemError, type RequestInfo, notThisVersion, tagsIn, problem } from '@postern/service-kit'

type Context = RequestInfo['context']

/** Who makes the change that a request asks for. */
export function actorOf({ kind, id, label }: Context): CreatedBy {
  return { type: kind === 'service' ? 'connector' : kind, id, label }
}

/** Whether the answer to a write may hold more than id, reference, version and status. */
export function mayRead(context: Context): boolean {
  return context.scopes.includes('read:findings')
}

/** The 422 that lists what to mend in the body. */
export function invalidContent(errors: readonly InputError[]): ProblemError {
  return problem('invalid_content', { detail: 'See `errors` for details.', errors })
}

/** Demands that If-Match is there: 428. Asked before anything is looked up. */
export function requireIfMatch({ raw }: Pick<RequestInfo, 'raw'>): void {
  if (raw.headers['if-match'] === undefined) {
    throw problem('precondition_required', { detail: 'Send If-Match with the ETag of the resource as you read it.' })
  }
}

/**
 * Refuses with 412 unless If-Match, where it is given, holds a tag of this version. The day in a tag does not matter
 * here: it changes what is derived, not what is stored, and who may not read knows only the tag of the last write.
 */
export function assertVersion({ raw }: Pick<RequestInfo, 'raw'>, version: number): void {
  const given = raw.headers['if-match']
  if (given === undefined || given.trim() === '*') return
  const tags = tagsIn(given)
  if (tags.some((tag) => /^"(\d{1,10})\.\d{4}-\d{2}-\d{2}(?:\.[\w-]{22})?"$/.exec(tag)?.[1] === String(version))) return
  throw notThisVersion(given)
}

/**
 * The entity tag: a resource reads differently when its version or the day (UTC) has changed, or what is shown beside
 * it, of which `beside` is a digest.
 */
export function entityTag(version: number, today: string, beside?: string): string {
  return beside === undefined ? `"${version}.${today}"` : `"${version}.${today}.${beside}"`
}

/** What a failed write means where another resource of the kind has the external id: 409. Else the failure as it is. */
export function orTakenId(
  kind: 'finding' | 'recommendation' | 'action_plan',
  constraint: string | undefined,
  error: unknown,
): unknown {
  if (constraint !== `${kind}_external_id_unique`) return error
  const name = kind.replace('_', ' ')
  return problem('conflict', {
    detail: `Another ${name} has this external_id. Each needs its own.`,
    errors: [{ pointer: '/external_id', code: 'taken', detail: `is the external_id of another ${name}` }],
  })
}
