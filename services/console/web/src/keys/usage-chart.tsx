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
        <h2 id="usage-title">Accepted requests in the last 30 days</h2>
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
  return <span className="chart-total">{days.reduce((sum, { requests }) => sum + requests, 0).toLocaleString()}</span>
}

function Bars({ days }: Pick<ApiKeyUsage, 'days'>) {
  const most = Math.max(...days.map(({ requests }) => requests))
  if (most === 0) return <p className="chart-space chart-none">No request was accepted in these days.</p>
  return (
    <div className="chart">
      <div className="chart-bars" aria-hidden="true">
        {days.map(({ day, requests }) => (
          <div
            key={day}
            className="chart-day"
            title={`${nameOf(day)} (UTC): ${requests.toLocaleString()} accepted requests`}
          >
            {requests === 0 ? undefined : (
              <div className="chart-bar" style={{ height: `${Math.max((100 * requests) / most, 2)}%` }} />
            )}
          </div>
        ))}
      </div>
      <div className="chart-axis" aria-hidden="true">
        <span>{nameOf(days.at(0)?.day ?? '')}</span>
        <span>most: {most.toLocaleString()} a day</span>
        <span>{nameOf(days.at(-1)?.day ?? '')}</span>
      </div>
      <table className="for-listeners">
        <caption>Accepted requests a day, in UTC</caption>
        <thead>
          <tr>
            <th scope="col">Day</th>
            <th scope="col">Requests</th>
          </tr>
        </thead>
        <tbody>
          {days.map(({ day, requests }) => (
            <tr key={day}>
              <th scope="row">{nameOf(day)}</th>
              <td>{requests}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
