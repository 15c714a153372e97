import { scimBase } from '@postern/contracts'

export type UrlOfPath = (path: string) => string

/** Without the public URL of the API, URLs are paths. */
export function createLocate(apiUrl: string | undefined): UrlOfPath {
  return (path) => `${apiUrl ?? ''}${scimBase}${path}`
}
