import { scimBase } from '@postern/contracts'

/** Returns the URL of a resource from its path below `/scim/v2`. */
export type Locate = (path: string) => string

/** Creates a `Locate`. Without the public URL of the API, URLs are paths. */
export function createLocate(apiUrl: string | undefined): Locate {
  return (path) => `${apiUrl ?? ''}${scimBase}${path}`
}
