import { join } from 'node:path'

export const repositoryRoot: string = join(import.meta.dirname, '..', '..', '..')

export const compileCache: string = join(repositoryRoot, '.tools', 'compile-cache')
