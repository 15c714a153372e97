import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseSync } from '@swc/core'
import { vi } from 'vitest'

/** A regular expression of the product, and where it stands first. */
export interface Pattern {
  readonly source: string
  readonly flags: string
  readonly path: string
}

/** Every regular expression that is written in a program of ours, tests left out. */
export function readPatterns(root: string, globs: readonly string[]): Pattern[] {
  const found = new Map<string, Pattern>()
  for (const { path, program } of parse(root, globs)) {
    collect(program, ({ source, flags }) => {
      const key = `/${source}/${flags}`
      if (!found.has(key)) found.set(key, { source, flags, path })
    })
  }
  return [...found.values()]
}

/** The programs of ours that make a regular expression of texts. */
export function findBuilt(root: string, globs: readonly string[]): string[] {
  return parse(root, globs).flatMap(({ path, program }) => (countBuilt(program) === 0 ? [] : [path]))
}

/** Loads a program anew and gives the regular expressions that it makes of texts while it is loaded. */
export async function loadBuilt(root: string, path: string): Promise<Pattern[]> {
  const made: Pattern[] = []
  const usual = RegExp
  const listening = new Proxy(usual, {
    construct: (target, given) => {
      const pattern: RegExp = Reflect.construct(target, given)
      const isItsOwn = new Error('where').stack?.includes(path) === true
      if (isItsOwn) made.push({ source: pattern.source, flags: pattern.flags, path })
      return pattern
    },
  })
  vi.resetModules()
  vi.stubGlobal('RegExp', listening)
  try {
    await import(pathToFileURL(join(root, path)).href)
  } finally {
    vi.unstubAllGlobals()
  }
  return made
}

function parse(root: string, globs: readonly string[]) {
  const paths = globSync([...globs], { cwd: root }).toSorted()
  return paths.flatMap((path) => {
    if (/\.test\.tsx?$|\/testing\/|node_modules/.test(path)) return []
    const isTyped = !path.endsWith('js')
    const program = parseSync(readFileSync(join(root, path), 'utf8'), {
      syntax: isTyped ? 'typescript' : 'ecmascript',
      tsx: path.endsWith('x'),
      target: 'esnext',
    })
    return [{ path, program }]
  })
}

function countBuilt(node: unknown): number {
  if (typeof node !== 'object' || node === null) return 0
  const isCall = 'type' in node && (node.type === 'NewExpression' || node.type === 'CallExpression')
  const callee: unknown = isCall && 'callee' in node ? node.callee : undefined
  const isBuilt = typeof callee === 'object' && callee !== null && 'value' in callee && callee.value === 'RegExp'
  return Object.values(node).reduce((sum: number, value) => sum + countBuilt(value), isBuilt ? 1 : 0)
}

function collect(node: unknown, add: (literal: { source: string; flags: string }) => void): void {
  if (typeof node !== 'object' || node === null) return
  if ('type' in node && node.type === 'RegExpLiteral' && 'pattern' in node && 'flags' in node) {
    add({ source: String(node.pattern), flags: String(node.flags) })
  }
  for (const value of Object.values(node)) collect(value, add)
}
