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
  const methods = new Set<string>()
  for (const route of routes) {
    for (const verb of verbsOf(route)) {
      methods.add(verb)
      router.on(verb, route.path, noop, route)
    }
  }
  for (const { path, verb } of hiddenMethods(routes)) router.on(verb, path, noop, null)
  const known = [...methods].toSorted()

  return (method, path) => {
    const found = methods.has(method) ? lookUp(router, method, path) : undefined
    if (found !== undefined) return found
    const allowed = known.filter((other) => other !== method && lookUp(router, other, path) !== undefined)
    return allowed.length === 0 ? none : { kind: 'method', allowed }
  }
}

function lookUp(router: ReturnType<typeof createRouter>, method: string, path: string): Match | undefined {
  const found = router.find(isHttpMethod(method) ? method : 'GET', path)
  if (found === null || found.store === null) return undefined
  // The router lets a parameter be empty: `/findings/` would be authorized as an item and be read elsewhere as the list.
  for (const name in found.params) if (found.params[name] === '') return undefined
  return { kind: 'route', route: found.store, params: found.params }
}

function verbsOf({ method }: Route): readonly Method[] {
  return method === 'GET' ? ['GET', 'HEAD'] : [method]
}

/** Methods that a path lacks and that a path with a parameter in its place has. */
function hiddenMethods(routes: readonly Route[]): readonly { readonly path: string; readonly verb: Method }[] {
  const paths = [...new Set(routes.map(({ path }) => path))]
  return paths.flatMap((path) => {
    const own = new Set(routes.filter((route) => route.path === path).flatMap(verbsOf))
    const others = new Set(routes.filter((route) => hides(path, route.path)).flatMap(verbsOf))
    return [...others].filter((verb) => !own.has(verb)).map((verb) => ({ path, verb }))
  })
}

/** Whether `path` names a resource of its own that `other` matches too: `/findings/bulk` is not an item of `/findings/:id`. */
function hides(path: string, other: string): boolean {
  const own = path.split('/')
  const others = other.split('/')
  if (own.length !== others.length) return false
  const canMatchBoth = own.every((segment, at) => {
    const opposite = others[at] ?? ''
    return isParameter(segment) || isParameter(opposite) || segment === opposite
  })
  // The path with the earlier literal segment wins.
  const first = own.findIndex((segment, at) => isParameter(segment) !== isParameter(others[at] ?? ''))
  return canMatchBoth && first !== -1 && isParameter(others[first] ?? '')
}

function isParameter(segment: string): boolean {
  return segment.startsWith(':')
}

const httpMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const

function isHttpMethod(method: string): method is (typeof httpMethods)[number] {
  return httpMethods.some((known) => known === method)
}
