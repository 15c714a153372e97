import { ApiProblem } from '../api/request.ts'
import { Link } from '../router.tsx'
import { Failure, Notice } from '../ui/notice.tsx'

export function CreationFailure({
  error,
  title,
  unsure,
  onLeave,
}: {
  readonly error: unknown
  readonly title: string
  readonly unsure: string
  readonly onLeave: () => void
}) {
  const lost = lostKeyIn(error)
  if (lost === undefined) return <Failure error={error} title={title} unsure={unsure} />
  return (
    <Notice tone="warning" title="The key was created, but its value is lost" isNews>
      <p>
        The first attempt created the key, but its response did not arrive. A value is shown only once, so it is lost.{' '}
        <Link className="text-link" to={`/settings/api-keys/${lost}`} onClick={onLeave}>
          Open the key
        </Link>{' '}
        and revoke it. You can generate another one first.
      </p>
    </Notice>
  )
}

/** See `alreadyCreatedDetail` of the keys service. */
function lostKeyIn(error: unknown): string | undefined {
  if (!(error instanceof ApiProblem) || error.problem.code !== 'conflict') return undefined
  return /created the API key ([0-9a-f-]{36})\./.exec(error.problem.detail ?? '')?.[1]
}
