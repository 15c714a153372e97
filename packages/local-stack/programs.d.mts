type Program =
  | 'gateway'
  | 'keys'
  | 'findings'
  | 'universe'
  | 'evidence'
  | 'sync'
  | 'console'
  | 'sign-in'
  | 'start'
  | 'postern'

interface Programs {
  readonly folder: string
  readonly isBuilt: boolean
  /** The file that Node runs for a program. */
  pathOf(name: Program): string
}

/** Returns where the programs of the current sources belong, and whether they exist. */
export function findPrograms(): Programs

/**
 * Builds missing programs in another process, and returns where they are. Concurrent calls are safe. `node` builds them,
 * by default this one.
 */
export function ensurePrograms(node?: string): Programs
