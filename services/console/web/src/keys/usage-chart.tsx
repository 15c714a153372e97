import type { ApiKeyUsage } from '@postern/contracts'
import { Failure } from '../ui/notice.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import type { Resource } from '../ui/use-resource.ts'

const dayForm = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', timeZone: 'UTC' })

function nameOf(day: string): string {
  return dayForm.format(new Date(`${day}T00:00:00Z`))
}

export function UsageChart({ usage, onRetry }: { usage: Resource<ApiKeyUsage>; onRetry: () => void }) {
  return (
    <section className="card" aria-labelledby="usage-title">
      <header className="chart-head">
        <h2 id="usage-title">Requests in the last 30 days</h2>
        {usage.state === 'ready' ? <Total days={usage.value.days} /> : undefined}
      </header>
      {usage.state === 'failed' ? (
        <Failure error={usage.error} title="The use of the key cannot be shown" onRetry={onRetry} />
      ) : usage.state === 'loading' ? (
        <div className="chart-space">
          <Skeleton width="40%" />
        </div>
      ) : (
        <Bars days={usage.value.days} />
      )}
    </section>
  )
}

function Total({ days }: Pick<ApiKeyUsage, 'days'>) {
  const accepted = days.reduce((sum, { requests }) => sum + requests, 0)
  const refused = days.reduce((sum, { refusals }) => sum + refusals, 0)
  return (
    <span className="chart-totals">
      <span>
        <span className="chart-total">{accepted.toLocaleString()}</span> accepted
      </span>
      <span className={refused === 0 ? 'faint' : 'danger'}>
        <span className="chart-total">{refused.toLocaleString()}</span> refused
      </span>
    </span>
  )
}

function Bars({ days }: Pick<ApiKeyUsage, 'days'>) {
  const most = Math.max(...days.map(({ requests, refusals }) => requests + refusals))
  if (most === 0) return <p className="chart-space chart-none">No request was sent in these days.</p>
  const heightOf = (count: number) => ({ height: `${Math.max((100 * count) / most, 2)}%` })
  return (
    <div className="chart">
      <div className="chart-bars" aria-hidden="true">
        {days.map(({ day, requests, refusals }) => (
          <div
            key={day}
            className="chart-day"
            title={`${nameOf(day)} (UTC): ${requests.toLocaleString()} accepted, ${refusals.toLocaleString()} refused`}
          >
            {refusals === 0 ? undefined : <div className="chart-bar chart-bar-refused" style={heightOf(refusals)} />}
            {requests === 0 ? undefined : <div className="chart-bar" style={heightOf(requests)} />}
          </div>
        ))}
      </div>
      <div className="chart-axis" aria-hidden="true">
        <span>{nameOf(days.at(0)?.day ?? '')}</span>
        <span>most: {most.toLocaleString()} a day</span>
        <span>{nameOf(days.at(-1)?.day ?? '')}</span>
      </div>
      <table className="for-listeners">
        <caption>Requests a day, in UTC</caption>
        <thead>
          <tr>
            <th scope="col">Day</th>
            <th scope="col">Accepted</th>
            <th scope="col">Refused</th>
          </tr>
        </thead>
        <tbody>
          {days.map(({ day, requests, refusals }) => (
            <tr key={day}>
              <th scope="row">{nameOf(day)}</th>
              <td>{requests}</td>
              <td>{refusals}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
