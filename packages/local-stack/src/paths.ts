import { join } from 'node:path'

export const repositoryRoot: string = join(import.meta.dirname, '..', '..', '..')

/** Compiled sources halve the time of a start. */
export const compileCache: string = join(repositoryRoot, '.tools', 'compile-cache')
