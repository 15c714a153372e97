import { join } from 'node:path'

/** The clone that this file belongs to. */
export const repositoryRoot: string = join(import.meta.dirname, '..', '..', '..')
