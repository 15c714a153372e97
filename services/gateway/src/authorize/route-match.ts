import { type Method, type Route, routeTable } from '@postern/contracts'
import createRouter from 'find-my-way'

/** What the route table says of a method and a canonical path. */
export type Match =
  | { readonly kind: 'route'; readonly route: Route; readonly params: Readonly<Record<string, string | undefined>> }
  /** The path is there, under other methods. */
  | { readonly kind: 'method'; readonly allowed: readonly string[] }
  | { readonly kind: 'none' }

export type RouteMatcher = (method: string, path: string) => Match

/**
 * Matches the method that a POST names in `X-HTTP-Method-Override`. Returns undefined on paths that accept no override.
 * `posted` is the match of the POST itself.
 */
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
// The router wants a handler; we only ask it what matches.
const noop = (): void => undefined
/** Longer path parameters match nothing. */
const maxParamLength = 1100

/**
 * Makes the matcher of a route table. Paths match byte for byte: case matters, and so does a trailing slash. HEAD is
 * answered where GET is.
 */
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
    // Without these the router would look for the method under a path with a parameter: `/findings/bulk` is no item of `/findings/:id`.
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
  // The router lets a parameter be empty: `/findings/` would be authorized as an item and be read elsewhere as the list.
  for (const name in found.params) if (found.params[name] === '') return undefined
  return { kind: 'route', route: found.store, params: found.params }
}

function verbsOf({ method }: Route): readonly Method[] {
  return method === 'GET' ? ['GET', 'HEAD'] : [method]
}

/** Paths that differ only in the names of their parameters are one path for the router. */
function withoutParameterNames(path: string): string {
  return path.replaceAll(/:[^/]+/g, ':id')
}
