import { type Route, routeTable } from '@postern/contracts'
import createRouter from 'find-my-way'

/** What the route table says of a method and a canonical path. */
export type Match =
  | { readonly kind: 'route'; readonly route: Route; readonly params: Readonly<Record<string, string | undefined>> }
  /** The path is there, under other methods. */
  | { readonly kind: 'method'; readonly allowed: readonly string[] }
  | { readonly kind: 'none' }

export type RouteMatcher = (method: string, path: string) => Match

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
    const verbs = route.method === 'GET' ? (['GET', 'HEAD'] as const) : ([route.method] as const)
    for (const verb of verbs) {
      methods.add(verb)
      router.on(verb, route.path, noop, route)
    }
  }
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
  if (found === null) return undefined
  // The router lets a parameter be empty: `/findings/` would be authorized as an item and be read elsewhere as the list.
  for (const name in found.params) if (found.params[name] === '') return undefined
  return { kind: 'route', route: found.store, params: found.params }
}

const httpMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

function isHttpMethod(method: string): method is (typeof httpMethods)[number] {
  return httpMethods.some((known) => known === method)
}
