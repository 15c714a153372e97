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

/** Where the programs of the sources as they are now belong, and whether they are there. */
export function findPrograms(): Programs

/**
 * Builds the programs if they are not there, in a process of its own, and gives where they are. Several may do so at once.
 * `node` is the Node that builds, by default this one.
 */
export function ensurePrograms(node?: string): Programs
