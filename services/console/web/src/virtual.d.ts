declare module 'virtual:routes' {
  import type { Access, Method } from '@postern/contracts'

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

declare module 'virtual:datasets' {
  import type { Connector } from '@postern/contracts'

  export interface FieldSummary {
    readonly name: string
    readonly isRequired: boolean
    readonly values?: readonly string[]
  }

  export const datasets: Readonly<Record<Connector['dataset'], readonly FieldSummary[]>>
}
