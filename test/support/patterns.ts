import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSync } from '@swc/core'

/** A regular expression of the product, and where it stands first. */
export interface Pattern {
  readonly source: string
  readonly flags: string
  readonly path: string
}

/** Every regular expression that is written in a program of ours, tests left out. */
export function readPatterns(root: string, globs: readonly string[]): Pattern[] {
  const found = new Map<string, Pattern>()
  for (const path of globSync([...globs], { cwd: root }).toSorted()) {
    if (/\.test\.tsx?$|\/testing\//.test(path)) continue
    const isTyped = !path.endsWith('js')
    const program = parseSync(readFileSync(join(root, path), 'utf8'), {
      syntax: isTyped ? 'typescript' : 'ecmascript',
      tsx: path.endsWith('x'),
      target: 'esnext',
    })
    collect(program, ({ source, flags }) => {
      const key = `/${source}/${flags}`
      if (!found.has(key)) found.set(key, { source, flags, path })
    })
  }
  return [...found.values()]
}

function collect(node: unknown, add: (literal: { source: string; flags: string }) => void): void {
  if (typeof node !== 'object' || node === null) return
  if ('type' in node && node.type === 'RegExpLiteral' && 'pattern' in node && 'flags' in node) {
    add({ source: String(node.pattern), flags: String(node.flags) })
  }
  for (const value of Object.values(node)) collect(value, add)
}
