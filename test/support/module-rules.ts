import type { ModuleGraph } from './module-graph.ts'

/** What may not be imported, and why. Paths are from the root; packages are `npm:…`, Node's own modules `node:…`. */
export interface ModuleRule {
  readonly name: string
  readonly from: RegExp
  /** Modules that the rule does not hold for. */
  readonly except?: RegExp
  readonly to: RegExp
  /** `to` may not be reached through other modules either. */
  readonly evenThroughOthers?: true
  /** Its types may be imported. */
  readonly typesAllowed?: true
  readonly why: string
}

export interface ModuleViolation {
  readonly rule: string
  readonly from: string
  readonly to: string
}

/** Gives everything that breaks a rule, imports that lead nowhere, and circles. */
export function findModuleViolations(graph: ModuleGraph, rules: readonly ModuleRule[]): ModuleViolation[] {
  return [...brokenRules(graph, rules), ...unresolved(graph), ...circles(graph)]
}

function brokenRules(graph: ModuleGraph, rules: readonly ModuleRule[]): ModuleViolation[] {
  return rules.flatMap(({ name, from, except, to, evenThroughOthers, typesAllowed }) =>
    [...graph.keys()]
      .filter((path) => from.test(path) && except?.test(path) !== true)
      .flatMap((path) =>
        (evenThroughOthers ? reachableFrom(graph, path, targetsOf) : (typesAllowed ? loadedBy : targetsOf)(graph, path))
          // A rule may forbid other units than one's own: `<own>` stands for the folder that `from` has caught.
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

/** A module that loads itself. Types that refer to each other load nothing. */
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
