import { scimBase } from '@postern/contracts'

export type Locate = (path: string) => string

/** Without the public URL of the API, URLs are paths. */
export function createLocate(apiUrl: string | undefined): Locate {
  return (path) => `${apiUrl ?? ''}${scimBase}${path}`
}
