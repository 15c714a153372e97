import type { ModuleGraph } from './module-graph.ts'

/** A forbidden import with its reason. Paths are from the root; packages are `npm:…`, Node's modules `node:…`. */
export interface ModuleRule {
  readonly name: string
  readonly from: RegExp
  /** Exempt modules. */
  readonly except?: RegExp
  readonly to: RegExp
  /** `to` must not be reached indirectly either. */
  readonly evenThroughOthers?: true
  /** Type-only imports are allowed. */
  readonly typesAllowed?: true
  readonly why: string
}

export interface ModuleViolation {
  readonly rule: string
  readonly from: string
  readonly to: string
}

/** Returns violations, imports of missing modules, and circles. */
export function findModuleViolations(graph: ModuleGraph, rules: readonly ModuleRule[]): ModuleViolation[] {
  return [...brokenRules(graph, rules), ...unresolved(graph), ...circles(graph)]
}

function brokenRules(graph: ModuleGraph, rules: readonly ModuleRule[]): ModuleViolation[] {
  return rules.flatMap(({ name, from, except, to, evenThroughOthers, typesAllowed }) =>
    [...graph.keys()]
      .filter((path) => from.test(path) && except?.test(path) !== true)
      .flatMap((path) =>
        (evenThroughOthers ? reachableFrom(graph, path, targetsOf) : (typesAllowed ? loadedBy : targetsOf)(graph, path))
          // A rule may forbid other units: `<own>` is the folder that `from` captured.
          .filter((target) => new RegExp(to.source.replaceAll('<own>', from.exec(path)?.[1] ?? '')).test(target))
          .map((target) => ({ rule: name, from: path, to: target })),
      ),
  )
}

function unresolved(graph: ModuleGraph): ModuleViolation[] {
  return [...graph].flatMap(([from, imports]) =>
    imports
      .filter(({ target }) => target === undefined)
      .map(({ specifier }) => ({ rule: 'imports-exist', from, to: specifier })),
  )
}

/** Returns modules that load themselves. Type-only circles are allowed. */
function circles(graph: ModuleGraph): ModuleViolation[] {
  return [...graph.keys()]
    .filter((path) => reachableFrom(graph, path, loadedBy).includes(path))
    .map((path) => ({ rule: 'no-circle', from: path, to: path }))
}

function targetsOf(graph: ModuleGraph, path: string): string[] {
  return (graph.get(path) ?? []).flatMap(({ target }) => (target === undefined ? [] : [target]))
}

function loadedBy(graph: ModuleGraph, path: string): string[] {
  const loaded = (graph.get(path) ?? []).filter(({ typesOnly }) => !typesOnly)
  return loaded.flatMap(({ target }) => (target === undefined ? [] : [target]))
}

function reachableFrom(graph: ModuleGraph, start: string, step: typeof targetsOf): string[] {
  const reached = new Set<string>()
  const ahead = step(graph, start)
  for (let next = ahead.pop(); next !== undefined; next = ahead.pop()) {
    if (reached.has(next)) continue
    reached.add(next)
    ahead.push(...step(graph, next))
  }
  return [...reached]
}
