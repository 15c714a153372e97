import { scimBase } from '@postern/contracts'

/** Returns the address of a resource, whose path begins below `/scim/v2`. */
export type Locate = (path: string) => string

/** `apiUrl`: the public URL of the API. Without it addresses begin at the path. */
export function createLocate(apiUrl: string | undefined): Locate {
  return (path) => `${apiUrl ?? ''}${scimBase}${path}`
}
