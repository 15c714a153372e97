import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Promised {
  readonly section: string
  readonly text: string
  /** The file with the annotation comes first. */
  readonly shownBy: readonly string[]
}

const root = join(import.meta.dirname, '..', '..')

/** The order of the sections in ASSURANCE.md. */
export const sections = ['Revocation', 'Tenants', 'Edge', 'Keys and secrets', 'Browser', 'Data', 'Operation'] as const

const annotation = /@promise (?<section>[^:]+): (?<text>[^@]+?)\.(?:\s+@alsoShownBy (?<others>[^@]+?))?(?=\s*(?:@|$))/g

/** `@promise Section: Text.` and `@alsoShownBy path, npm run command`. */
export function parsePromises(path: string, source: string): Promised[] {
  const head = /^\/\*\*(?<comment>[^]*?)\*\/\n/.exec(source)?.groups?.['comment'] ?? ''
  const comment = head
    .replaceAll(/\n \* ?/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim()
  return [...comment.matchAll(annotation)].map(({ groups = {} }) => ({
    section: groups['section'] ?? '',
    text: groups['text'] ?? '',
    shownBy: [path, ...(groups['others']?.split(/,\s+/) ?? [])],
  }))
}

export function readPromises(): Promised[] {
  const paths = globSync(['{packages,services,test,verification}/**/*.ts'], {
    cwd: root,
    exclude: ['**/node_modules/**', '**/dist/**'],
  }).toSorted()
  const promises = paths.flatMap((path) => parsePromises(path, readFileSync(join(root, path), 'utf8')))
  const order: readonly string[] = sections
  return promises.toSorted((one, other) => order.indexOf(one.section) - order.indexOf(other.section))
}
