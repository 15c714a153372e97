import { type ApiKeyUsage, type GrantableScope, type NamedScope, namedScopes } from '@postern/contracts'
import { type RouteSummary, routes } from 'virtual:routes'
import { Icon } from '../ui/icon.tsx'
import { grants } from './scope-info.ts'

interface Props {
  readonly scopes: readonly GrantableScope[]
  readonly isActive: boolean
  readonly used: ApiKeyUsage['routes'] | undefined
}

export function CallableRoutes({ scopes, used, isActive }: Props) {
  const uses = new Map(used?.map((each) => [each.route, each]))
  const open = routes.filter((route) => opens(scopes, route))
  const areas = Map.groupBy(open, ({ tag }) => tag)
  return (
    <section className="card" aria-labelledby="routes-title">
      <h2 id="routes-title">{isActive ? 'What it can call' : 'What it could call'}</h2>
      <p className="help">
        {open.length} routes
        {used === undefined ? '' : `, ${open.filter(({ id }) => uses.has(id)).length} used in the last 30 days`}.{' '}
        {isActive ? 'All other requests are rejected.' : 'All requests are rejected now.'}
      </p>
      <div className="route-areas">
        {[...areas].map(([area, list]) => (
          <details key={area} className="route-area" open={list.some(({ id }) => uses.has(id))}>
            <summary>
              <Icon name="chevron" size={16} />
              <h3>{area}</h3>
              <span className="route-area-use">
                {inWords(list.length, list.filter(({ id }) => uses.has(id)).length)}
              </span>
            </summary>
            <ul className="routes">
              {list.map((route) => (
                <li key={route.id} className="route">
                  <span className={`method method-${route.method.toLowerCase()}`}>{route.method}</span>
                  <span className="route-words">
                    <span>{route.summary}</span>
                    <code>{route.path.replace('/api/v1', '')}</code>
                  </span>
                  <span className="route-use">
                    {uses.has(route.id) ? (
                      <span title={`Last on ${uses.get(route.id)?.last_used_on} (UTC)`}>
                        <Icon name="check" size={14} />
                        {(uses.get(route.id)?.requests ?? 0).toLocaleString()}
                        <span className="for-listeners"> requests in 30 days</span>
                      </span>
                    ) : undefined}
                  </span>
                </li>
              ))}
            </ul>
          </details>
        ))}
      </div>
    </section>
  )
}

function inWords(count: number, used: number): string {
  const all = count === 1 ? '1 route' : `${count} routes`
  return used === 0 ? all : `${all}, ${used} used`
}

function opens(scopes: readonly GrantableScope[], { access, method }: RouteSummary): boolean {
  if (access.kind === 'public' || access.kind === 'person' || method === 'HEAD') return false
  if (access.kind === 'any') return true
  const needed: readonly NamedScope[] = access.kind === 'scope' ? [access.scope] : access.scopes
  return namedScopes.some((scope) => needed.includes(scope) && grants(scopes, scope))
}
