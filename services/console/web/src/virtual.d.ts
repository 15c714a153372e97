declare module 'virtual:routes' {
  import type { Access, Method } from '@postern/contracts'

  /** What the console tells of a route of the API. */
  export interface RouteSummary {
    readonly id: string
    readonly method: Method
    readonly path: string
    readonly summary: string
    readonly tag: string
    readonly access: Access
  }

  export const routes: readonly RouteSummary[]
}
