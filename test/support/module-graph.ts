import { globSync, readFileSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { dirname, join, normalize } from 'node:path'
import { parseSync } from '@swc/core'

/** An import: a module by its path, `npm:<package>` or `node:<module>`. */
interface Import {
  readonly specifier: string
  /** Undefined if the target does not exist. */
  readonly target: string | undefined
  /** Types only: `import type`, `export type … from`, `import('…')` as a type. */
  readonly typesOnly: boolean
}

/** Every module with its imports: static, re-exported, dynamic and type-only. */
export type ModuleGraph = ReadonlyMap<string, readonly Import[]>

/** The modules of the product, without tests. */
export const modulePatterns = [
  'packages/*/src/**/*.ts',
  'services/*/src/**/*.ts',
  'packages/*/*.mjs',
  'packages/*/commands/*.mjs',
] as const

/**
 * Reads all modules below a root. Other tools need TypeScript's own parser, which TypeScript 7 does not offer, or fail
 * on new syntax.
 */
export function readModuleGraph(root: string): ModuleGraph {
  const paths = globSync([...modulePatterns], { cwd: root }).filter((path) => !path.endsWith('.test.ts'))
  const known = new Set(paths.map((path) => normalize(path)))
  const entries = entryPoints(root)
  const graph = new Map<string, readonly Import[]>()
  for (const path of [...known].toSorted()) {
    const syntax = path.endsWith('.ts') ? 'typescript' : 'ecmascript'
    const specifiers = new Map<string, boolean>()
    collect(parseSync(readFileSync(join(root, path), 'utf8'), { syntax, target: 'esnext' }), specifiers)
    const imports = [...specifiers].map(([specifier, typesOnly]) => {
      return { specifier, target: resolve(path, specifier, known, entries), typesOnly }
    })
    graph.set(path, imports)
  }
  return graph
}

/** Collects the imports below a node of the syntax tree. */
function collect(node: unknown, specifiers: Map<string, boolean>): void {
  if (typeof node !== 'object' || node === null) return
  if (Array.isArray(node)) {
    for (const each of node) collect(each, specifiers)
    return
  }
  switch (member(node, 'type')) {
    case 'ImportDeclaration':
    case 'ExportNamedDeclaration':
    case 'ExportAllDeclaration':
      add(member(node, 'source'), member(node, 'typeOnly') === true, specifiers)
      break
    case 'TsImportType':
      add(member(node, 'argument'), true, specifiers)
      break
    case 'CallExpression':
      if (member(member(node, 'callee'), 'type') === 'Import') add(firstArgument(node), false, specifiers)
      break
    default:
  }
  for (const value of Object.values(node)) collect(value, specifiers)
}

function firstArgument(call: object): unknown {
  const given = member(call, 'arguments')
  return Array.isArray(given) ? member(given[0], 'expression') : undefined
}

function add(literal: unknown, typesOnly: boolean, specifiers: Map<string, boolean>): void {
  const value = member(literal, 'value')
  if (typeof value === 'string') specifiers.set(value, typesOnly && specifiers.get(value) !== false)
}

function member(node: unknown, name: string): unknown {
  return typeof node === 'object' && node !== null ? Reflect.get(node, name) : undefined
}

function resolve(
  from: string,
  specifier: string,
  known: ReadonlySet<string>,
  entries: ReadonlyMap<string, string>,
): string | undefined {
  if (specifier.startsWith('.')) {
    const path = join(dirname(from), specifier)
    return known.has(path) ? path : undefined
  }
  if (specifier.startsWith('@postern/')) return entries.get(specifier)
  if (specifier.startsWith('node:')) return specifier
  if (builtinModules.includes(specifier)) return `node:${specifier}`
  const [scope = '', name = ''] = specifier.split('/')
  return `npm:${specifier.startsWith('@') ? `${scope}/${name}` : scope}`
}

/** Maps `@postern/…` to the exported sources of the packages. */
function entryPoints(root: string): ReadonlyMap<string, string> {
  const entries = new Map<string, string>()
  for (const path of globSync('packages/*/package.json', { cwd: root })) {
    const manifest: unknown = JSON.parse(readFileSync(join(root, path), 'utf8'))
    const exported = member(manifest, 'exports')
    if (typeof exported !== 'object' || exported === null) continue
    for (const [name, target] of Object.entries(exported)) {
      const source = member(target, '@postern/source')
      const specifier = join(String(member(manifest, 'name')), name)
      if (typeof source === 'string') entries.set(specifier, join(dirname(path), source))
    }
  }
  return entries
}
