import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseSync } from '@swc/core'
import { vi } from 'vitest'

/** A regular expression with its first location. */
export interface Pattern {
  readonly source: string
  readonly flags: string
  readonly path: string
}

/** Returns every regular expression in the sources, without tests. */
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

/** Returns the sources that build regular expressions at run time, with the number of places. */
export function findBuilt(
  root: string,
  globs: readonly string[],
): { readonly path: string; readonly places: number }[] {
  return parse(root, globs).flatMap(({ path, program }) => {
    const places = countBuilt(program)
    return places === 0 ? [] : [{ path, places }]
  })
}

/** Returns the regular expressions of a Python program, which must match whole texts. */
export function readPythonPatterns(root: string, path: string): Pattern[] {
  const text = readFileSync(join(root, path), 'utf8')
  const found = [...text.matchAll(/^(?<name>\w+) = re\.compile\(r"(?<source>[^"]*)"\)$/gm)]
  const elsewhere = text.match(/\bre\.[a-z]+\(/g)?.length !== found.length
  if (elsewhere || found.some(({ groups }) => text.includes(`${groups?.['name']}.search`))) {
    throw new Error(`${path} has a pattern that is not a constant, or that may begin anywhere in a text`)
  }
  return found.map(({ groups }) => ({ source: `^(?:${groups?.['source']})$`, flags: '', path }))
}

/** Loads a module again and returns the regular expressions that it builds while loading. */
export async function loadBuilt(root: string, path: string): Promise<Pattern[]> {
  const made: Pattern[] = []
  const usual = RegExp
  const make = (target: typeof RegExp, given: unknown[]): RegExp => {
    const pattern: RegExp = Reflect.construct(target, given)
    const isItsOwn = new Error('where').stack?.includes(path) === true
    if (isItsOwn) made.push({ source: pattern.source, flags: pattern.flags, path })
    return pattern
  }
  const listening = new Proxy(usual, { construct: make, apply: (target, _self, given) => make(target, given) })
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
