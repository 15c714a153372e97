import { routeTable } from '@postern/contracts'
import { findNearest } from '@postern/service-kit'

/** Longer paths are not misspellings of ours. */
const maxSegments = 8

const known = [...new Set(routeTable.map(({ path }) => path))].map((path) => ({
  path,
  segments: path.split('/').slice(1),
}))

/** Returns the path that a caller probably meant, with `{name}` for each parameter. */
export function suggestPath(target: string): string | undefined {
  const given = segmentsOf(target)
  if (given.length > maxSegments) return undefined
  let best: { readonly path: string; readonly differences: number } | undefined
  for (const { path, segments } of known) {
    const differences = countDifferences(given, segments)
    if (differences !== undefined && differences < (best?.differences ?? Infinity)) best = { path, differences }
  }
  return best?.path.replace(/:([a-z_]+)/g, '{$1}')
}

/** Drops empty segments, and replaces a missing or misspelled prefix with the one of the API. */
function segmentsOf(target: string): string[] {
  const segments =
    target
      .split('?', 1)[0]
      ?.split('/')
      .filter((segment) => segment !== '') ?? []
  if (segments[0]?.toLowerCase() === 'scim') return segments
  const at = segments.findIndex((segment) => !/^(?:api|rest|v[0-9]+)$/i.test(segment))
  return at < 0 ? [] : ['api', 'v1', ...segments.slice(at)]
}

/** Returns how many segments differ. Undefined: the paths are not alike. */
function countDifferences(given: readonly string[], segments: readonly string[]): number | undefined {
  if (given.length !== segments.length) return undefined
  let differences = 0
  for (const [at, segment] of segments.entries()) {
    const own = given[at] ?? ''
    // A fixed segment is likelier than a parameter.
    if (segment.startsWith(':')) differences += 0.5
    else if (own !== segment && findNearest(own, [segment]) === undefined) return undefined
    else if (own !== segment) differences += 1
  }
  return differences
}

/** Returns the path that creates what a list has: a resource that belongs to another one is created below it. */
export function findCreation(target: string): string | undefined {
  const [path = ''] = target.split('?', 1)
  const ending = `/:id${path.slice(path.lastIndexOf('/'))}`
  const creation = routeTable.find(
    (route) => route.method === 'POST' && 201 in route.answers && route.path.endsWith(ending),
  )
  return creation?.path.replace(':id', '{id}')
}
