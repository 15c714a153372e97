import { scimBase } from '@postern/contracts'

/** Returns the address of a resource, whose path begins below `/scim/v2`. */
export type Locate = (path: string) => string

/** `apiUrl`: the public origin of the API. Without it addresses begin at the path. */
export function createLocate(apiUrl: string | undefined): Locate {
  const base = apiUrl === undefined ? scimBase : `${new URL(apiUrl).href.replace(/\/$/, '')}${scimBase}`
  return (path) => base + path
}
