/**
 * @promise Operation: The gateway cannot reach the database, and modules depend only on what the table allows.
 */

import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { modulePatterns, readModuleGraph } from '../support/module-graph.ts'
import { type ModuleRule, findModuleViolations } from '../support/module-rules.ts'

const root = join(import.meta.dirname, '..', '..')

/** The allowed dependencies of each package and service, lowest first. `tests` are allowed in its tests too. */
const allowed: Readonly<Record<string, { readonly uses: readonly string[]; readonly tests?: readonly string[] }>> = {
  contracts: { uses: [] },
  'api-key': { uses: [] },
  'tenant-db': { uses: ['contracts'], tests: ['local-stack'] },

  'log-chain': { uses: [] },

  'signed-context': { uses: ['contracts'] },
  client: { uses: ['contracts'], tests: ['local-stack'] },
  'sign-in': { uses: ['contracts'] },

  'key-cache': { uses: ['contracts', 'signed-context'] },
  'service-client': { uses: ['contracts', 'signed-context'] },
  // Not tenant-db: dependencies of the gateway must not reach PostgreSQL.
  'service-kit': { uses: ['contracts', 'service-client', 'signed-context'] },

  gateway: {
    uses: ['api-key', 'contracts', 'key-cache', 'service-client', 'service-kit', 'sign-in', 'signed-context'],
    tests: ['local-stack'],
  },
  keys: {
    uses: ['api-key', 'contracts', 'key-cache', 'service-kit', 'signed-context', 'tenant-db'],
    tests: ['local-stack'],
  },
  console: {
    uses: ['contracts', 'service-client', 'service-kit', 'sign-in', 'signed-context'],
    tests: ['local-stack'],
  },
  // For browsers: what it is built from is bundled, and nothing of it runs on a server.
  'console-web': { uses: [], tests: ['contracts', 'log-chain'] },
  findings: {
    uses: ['contracts', 'log-chain', 'service-client', 'service-kit', 'signed-context', 'tenant-db'],
    tests: ['local-stack'],
  },
  universe: {
    uses: ['contracts', 'service-client', 'service-kit', 'signed-context', 'tenant-db'],
    tests: ['local-stack'],
  },
  evidence: {
    uses: ['contracts', 'service-client', 'service-kit', 'signed-context', 'tenant-db'],
    tests: ['local-stack'],
  },
  sync: {
    uses: ['contracts', 'service-client', 'service-kit', 'signed-context', 'tenant-db'],
    tests: ['local-stack'],
  },

  installation: { uses: ['contracts', 'signed-context', 'tenant-db'] },
  // Starts the services as processes, by their paths: it imports none.
  'local-stack': {
    uses: ['client', 'contracts', 'installation', 'log-chain', 'service-client', 'signed-context', 'tenant-db'],
  },
  cli: {
    uses: [
      'api-key',
      'client',
      'contracts',
      'installation',
      'log-chain',
      'service-client',
      'sign-in',
      'signed-context',
    ],
    tests: ['local-stack'],
  },
  test: {
    uses: [],
    tests: ['api-key', 'client', 'contracts', 'installation', 'local-stack', 'signed-context', 'tenant-db'],
  },
  verification: {
    uses: [],
    tests: ['api-key', 'client', 'contracts', 'installation', 'local-stack', 'signed-context', 'tenant-db'],
  },
}

const dependenciesSchema = z.record(z.string(), z.string()).default({})
const manifestSchema = z.object({
  name: z.string(),
  dependencies: dependenciesSchema,
  optionalDependencies: dependenciesSchema,
  peerDependencies: dependenciesSchema,
  devDependencies: dependenciesSchema,
})

const manifests = globSync(
  [
    'packages/*/package.json',
    'services/*/package.json',
    'services/*/web/package.json',
    '{test,verification}/package.json',
  ],
  {
    cwd: root,
  },
).map((path) => manifestSchema.parse(JSON.parse(readFileSync(join(root, path), 'utf8'))))

function ours(dependencies: Readonly<Record<string, string>>): string[] {
  return Object.keys(dependencies).flatMap((name) => (name.startsWith('@postern/') ? [unitOf(name)] : []))
}

function unitOf(name: string): string {
  return name.replace('@postern/', '')
}

describe('the dependencies that package.json files declare', () => {
  test('every package and service is in the table, and nothing else', () => {
    expect(manifests.map(({ name }) => unitOf(name)).toSorted()).toEqual(Object.keys(allowed).toSorted())
  })

  test.each(manifests)('$name uses what the table allows', (manifest) => {
    const { uses = [], tests = [] } = allowed[unitOf(manifest.name)] ?? {}
    const { dependencies, optionalDependencies, peerDependencies, devDependencies } = manifest
    const used = ours({ ...dependencies, ...optionalDependencies, ...peerDependencies })
    expect(used.filter((unit) => !uses.includes(unit))).toEqual([])
    expect(ours(devDependencies).filter((unit) => !uses.includes(unit) && !tests.includes(unit))).toEqual([])
  })

  test('the gateway reaches neither tenant-db nor pg through its dependencies', () => {
    const reached = new Set(['@postern/gateway'])
    for (const name of reached) {
      const manifest = manifests.find((each) => each.name === name)
      for (const next of Object.keys({ ...manifest?.dependencies, ...manifest?.optionalDependencies }))
        reached.add(next)
    }
    expect([...reached]).toContain('@postern/service-kit')
    expect([...reached].filter((name) => name === '@postern/tenant-db' || name === 'pg')).toEqual([])
  })

  test('the root package declares only tools, because every package can import its dependencies', () => {
    const { dependencies, devDependencies } = manifestSchema.parse(
      JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')),
    )
    expect(dependencies).toEqual({})
    expect(Object.keys(devDependencies).toSorted()).toEqual(
      [
        '@types/node',
        'cspell',
        'knip',
        'oxfmt',
        'oxlint',
        'oxlint-tsgolint',
        'typescript',
        'vite',
        'vitest',
      ].toSorted(),
    )
  })
})

const rules: readonly ModuleRule[] = [
  {
    name: 'services-stand-alone',
    from: /^services\/([^/]+)\//,
    to: /^services\/(?!<own>\/)/,
    why: 'services call each other only by signed requests',
  },
  {
    name: 'packages-know-no-service',
    from: /^packages\//,
    to: /^services\//,
    why: 'local-stack starts them by path',
  },
  {
    name: 'packages-by-their-entries',
    from: /^(?:packages|services)\/([^/]+)\//,
    to: /^packages\/(?!<own>\/)[^/]+\/(?!src\/(?:internal\/|testing\/|access\/|redis\/)?index\.ts$)/,
    why: 'what a package does not export is its own',
  },
  {
    name: 'no-database-in-the-gateway',
    from: /^services\/gateway\//,
    to: /^(?:packages\/tenant-db\/|npm:pg$)/,
    evenThroughOthers: true,
    why: 'the edge holds no credentials of PostgreSQL',
  },
  {
    name: 'pg-in-two-packages',
    from: /^(?:packages|services)\//,
    // sync: connectors read foreign databases.
    except: /^packages\/(?:tenant-db|local-stack)\/|^services\/sync\/src\/source\/sql\//,
    to: /^npm:pg$/,
    why: 'every query runs in a tenant transaction',
  },
  {
    name: 'sql-in-stores',
    from: /^services\//,
    // keys: one maps the failures of the database for all routes, the other tells a slug that is taken.
    except: /\/(?:store|deps)\.ts$|^services\/keys\/src\/(?:database-errors|tenant\/routes)\.ts$/,
    to: /^packages\/tenant-db\//,
    typesAllowed: true,
    why: 'only store.ts holds SQL, only deps.ts opens the pool',
  },
  {
    name: 'rules-are-pure',
    from: /^services\/[^/]+\/src\/.*\brules\.ts$/,
    to: /^(?:packages\/(?:tenant-db|service-kit|signed-context)\/|npm:fastify$|node:(?!util$))|\/(?:store|deps|routes|app|config)\.ts$/,
    why: 'rules decide without clock, database or framework',
  },
  {
    name: 'stores-of-their-own',
    from: /^services\/(keys|findings|universe|evidence|sync)\/src\/[^/]+\/rules\.ts$/,
    to: /\/store\.ts$/,
    why: 'a decision never reads for itself',
  },
  {
    name: 'nothing-imports-main',
    from: /^(?:packages|services)\//,
    to: /\/src\/(?:main|start)\.ts$/,
    why: 'importing it would start it',
  },
  {
    name: 'app-is-for-the-service',
    from: /^services\/[^/]+\/src\//,
    except: /^services\/[^/]+\/src\/(?:service|main|run-gateway)\.ts$/,
    to: /^services\/[^/]+\/src\/(?:app|service)\.ts$/,
    why: 'data flows one way: env, config, deps, app, routes, rules, store',
  },
  {
    name: 'contracts-do-nothing',
    from: /^packages\/contracts\//,
    to: /^(?:node:|npm:(?!zod$))/,
    why: 'contracts are data, also in a browser',
  },
  {
    name: 'keys-are-computed',
    from: /^packages\/api-key\//,
    to: /^(?:node:(?!(?:crypto|util|zlib)$)|npm:)/,
    why: 'the format of a key needs no I/O',
  },
  {
    name: 'client-without-dependencies',
    from: /^packages\/client\//,
    to: /^(?:node:|npm:)/,
    why: 'it runs wherever fetch does',
  },
]

describe('the imports of the modules', () => {
  const graph = readModuleGraph(root)

  test('all modules are read', () => {
    // Counted in another way than they are read.
    const files = globSync('{packages,services}/**/*', {
      cwd: root,
      // The console's pages have a compiler of their own, which resolves what they import.
      exclude: ['**/node_modules', '**/dist', '**/test', 'services/console/web'],
    })
    const modules = files.filter((path) => /\.(?:ts|mjs|js|mts|cts)$/.test(path) && !/\.(?:test|d)\.m?ts$/.test(path))
    expect(modules.filter((path) => !graph.has(path))).toEqual([])
    expect(graph.size).toBeGreaterThan(100)
    expect([...graph.values()].flat().length).toBeGreaterThan(graph.size)
    expect(modulePatterns).toContain('services/*/src/**/*.ts')
  })

  test('follow the rules', () => {
    expect(findModuleViolations(graph, rules)).toEqual([])
  })

  test('every exception of a rule is still needed', () => {
    const strict = rules.flatMap(({ except, ...rule }) => (except === undefined ? [] : [rule]))
    for (const rule of strict) expect(findModuleViolations(graph, [rule]), rule.name).not.toEqual([])
  })
})

describe('a planted violation is reported', () => {
  const folder = mkdtempSync(join(tmpdir(), 'planted-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  const exports = { '.': { '@postern/source': './src/index.ts' } }
  const clean = {
    'packages/tenant-db/package.json': JSON.stringify({ name: '@postern/tenant-db', exports }),
    'packages/tenant-db/src/index.ts': `export { pool } from './pool.ts'`,
    'packages/tenant-db/src/pool.ts': `import { Pool } from 'pg'; export const pool = new Pool()`,
    'services/keys/src/main.ts': `import './app.ts'`,
    'services/keys/src/app.ts': `import './key/routes.ts'`,
    'services/keys/src/key/routes.ts': `import './store.ts'; import './rules.ts'`,
    'services/keys/src/key/rules.ts': `export const may = true`,
    'services/keys/src/key/store.ts': `import { pool } from '@postern/tenant-db'; export { pool }`,
  }

  /** Violations of a small repository that has these files as well. */
  function violationsWith(name: string, files: Readonly<Record<string, string>>): readonly string[] {
    const planted = join(folder, name)
    for (const [path, text] of Object.entries({ ...clean, ...files })) {
      mkdirSync(dirname(join(planted, path)), { recursive: true })
      writeFileSync(join(planted, path), text)
    }
    return findModuleViolations(readModuleGraph(planted), rules).map(({ rule }) => rule)
  }

  test('an allowed import is not reported', () => {
    expect(violationsWith('clean', {})).toEqual([])
    const types = {
      'services/keys/src/key/routes.ts': `import type { Tx } from '@postern/tenant-db'; import './rules.ts'`,
      'services/keys/src/key/rules.ts': `import type { Input } from './routes.ts'`,
    }
    // Rules know no routes, not even their types; but that is no circle, and Tx no query.
    expect(violationsWith('types', types)).toEqual(['rules-are-pure'])
  })

  const violations: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    'services-stand-alone': { 'services/sync/src/run.ts': `import '../../keys/src/key/rules.ts'` },
    'packages-know-no-service': { 'packages/client/src/x.ts': `import '../../../services/keys/src/key/rules.ts'` },
    'packages-by-their-entries': { 'services/sync/src/deps.ts': `import '../../../packages/tenant-db/src/pool.ts'` },
    'no-database-in-the-gateway': {
      'services/gateway/src/forward/proxy.ts': `export * from '@postern/service-kit'`,
      'packages/service-kit/package.json': JSON.stringify({ name: '@postern/service-kit', exports }),
      'packages/service-kit/src/index.ts': `export const load = async () => await import('@postern/tenant-db')`,
    },
    'pg-in-two-packages': { 'services/keys/src/key/store.ts': `import type { Pool } from 'pg'; export type P = Pool` },
    'sql-in-stores': {
      'services/keys/src/key/routes.ts': `await using db = (await import('@postern/tenant-db')).pool`,
    },
    'rules-are-pure': { 'services/keys/src/key/rules.ts': `import { readFileSync } from 'fs'; readFileSync('x')` },
    'stores-of-their-own': { 'services/keys/src/key/rules.ts': `import './store.ts'` },
    'nothing-imports-main': { 'services/keys/src/deps.ts': `export type M = import('./main.ts').M` },
    'app-is-for-the-service': { 'services/keys/src/deps.ts': `import './app.ts'` },
    'contracts-do-nothing': { 'packages/contracts/src/x.ts': `import 'node:process'` },
    'keys-are-computed': { 'packages/api-key/src/x.ts': `import 'node:net'` },
    'client-without-dependencies': { 'packages/client/src/x.ts': `import 'undici'` },
    'imports-exist': { 'services/keys/src/deps.ts': `import './nowhere.ts'` },
    'sql-in-stores ': {
      'services/keys/src/key/routes.ts': `import type { T } from '@postern/tenant-db'; export { pool } from '@postern/tenant-db'`,
    },
    'no-circle': {
      'services/keys/src/a.ts': `import './b.ts'`,
      'services/keys/src/b.ts': `export * from './a.ts'`,
    },
  }

  test.each(Object.entries(violations))('%s', (rule, files) => {
    expect(violationsWith(rule, files)).toContain(rule.trim())
  })

  test('for every rule', () => {
    expect(Object.keys(violations)).toEqual(expect.arrayContaining(rules.map(({ name }) => name)))
  })
})
