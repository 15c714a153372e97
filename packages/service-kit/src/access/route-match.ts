import { type Method, type Route, routeTable } from '@postern/contracts'
import createRouter from 'find-my-way'

export type Match =
  | { readonly kind: 'route'; readonly route: Route; readonly params: Readonly<Record<string, string | undefined>> }
  /** The path exists with other methods. */
  | { readonly kind: 'method'; readonly allowed: readonly string[] }
  | { readonly kind: 'none' }

export type RouteMatcher = (method: string, path: string) => Match

/** Matches the method in `X-HTTP-Method-Override`. Undefined on paths that accept no override. */
export function matchOverride(
  matchRoute: RouteMatcher,
  method: string,
  path: string,
  posted: Match,
): Match | undefined {
  const meant = matchRoute(method, path)
  const match = meant.kind === 'route' ? meant : posted
  return match.kind === 'route' && match.route.acceptsMethodOverride === true ? meant : undefined
}

const none: Match = { kind: 'none' }
const noop = (): void => undefined
/** Longer path parameters match nothing. */
const maxParamLength = 1100

/** Paths match exactly, including case and trailing slash. HEAD matches GET. */
export function createRouteMatcher(routes: readonly Route[] = routeTable): RouteMatcher {
  const router = createRouter({ caseSensitive: true, ignoreTrailingSlash: false, maxParamLength })
  const methods = [...new Set(routes.flatMap(verbsOf))].toSorted()
  const paths = Map.groupBy(routes, ({ path }) => withoutParameterNames(path))
  for (const [path, routesOfPath] of paths) {
    const lacking = new Set(methods)
    for (const route of routesOfPath) {
      for (const verb of verbsOf(route)) {
        lacking.delete(verb)
        router.on(verb, route.path, noop, route)
      }
    }
    // Otherwise `/findings/bulk` with another method would match `/findings/:id`.
    for (const verb of lacking) router.on(verb, path, noop, null)
  }

  return (method, path) => {
    const verb = methods.find((known) => known === method)
    const found = verb === undefined ? undefined : lookUp(router, verb, path)
    if (found !== undefined) return found
    const allowed = methods.filter((other) => lookUp(router, other, path) !== undefined)
    return allowed.length === 0 ? none : { kind: 'method', allowed }
  }
}

function lookUp(router: ReturnType<typeof createRouter>, method: Method, path: string): Match | undefined {
  const found = router.find(method, path)
  if (found === null || found.store === null) return undefined
  // `/findings/` must not be authorized as an item.
  for (const name in found.params) if (found.params[name] === '') return undefined
  return { kind: 'route', route: found.store, params: found.params }
}

function verbsOf({ method }: Route): readonly Method[] {
  return method === 'GET' ? ['GET', 'HEAD'] : [method]
}

/** For the router, names of parameters do not distinguish paths. */
function withoutParameterNames(path: string): string {
  return path.replaceAll(/:[^/]+/g, ':id')
}
