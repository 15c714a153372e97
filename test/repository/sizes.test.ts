import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { componentNames, filesOf, rotatableNames } from '@postern/installation'
import { loginRoles } from '@postern/tenant-db'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { readResources, workloadsOf } from '../support/manifests.ts'

const root = join(import.meta.dirname, '..', '..')
const deploy = join(root, 'deploy')
const base = readResources(join(deploy, 'kubernetes/base'))

const { migrator: _migrator, ...ofServices } = loginRoles
const runtimeRoles = Object.values(ofServices)

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}

/** A quantity of Kubernetes' in MiB. */
function mebibytes(quantity: string): number {
  const [, number, unit] = /^(\d+)(Mi|Gi)$/.exec(quantity) ?? []
  if (number === undefined) throw new Error(`${quantity} is no size that is read here`)
  return Number(number) * (unit === 'Gi' ? 1024 : 1)
}

describe('PgBouncer', () => {
  const ini = read('deploy/pgbouncer/pgbouncer.ini')
  const settingOf = (name: string): number => {
    const [, value] = new RegExp(`^${name} = (\\d+)$`, 'm').exec(ini) ?? []
    if (value === undefined) throw new Error(`${name} is not set`)
    return Number(value)
  }

  test("opens fewer connections than PostgreSQL accepts: the default with one PgBouncer, 200 with the manifests' two", () => {
    const { replicas, strategy } = z
      .looseObject({
        replicas: z.number(),
        strategy: z.looseObject({ rollingUpdate: z.object({ maxSurge: z.number(), maxUnavailable: z.number() }) }),
      })
      .parse(base.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'pgbouncer')?.['spec'])
    const pods = replicas + strategy.rollingUpdate.maxSurge
    // Ten are left for the migrations, whoever looks, and those that PostgreSQL keeps for superusers.
    expect(settingOf('max_db_connections')).toBeLessThanOrEqual(100 - 10)
    expect(pods * settingOf('max_db_connections')).toBeLessThanOrEqual(200 - 10)
    expect(read('deploy/kubernetes/overlays/development/postgres.yaml')).toContain('max_connections=200')
    expect(read('docs/operations/sizes.md')).toContain("the manifests' two need 200")
  })

  test('reserves connections for each role, and enough for the runs of all sync replicas', () => {
    const limits = new Map(
      [...ini.matchAll(/^(postern_\w+) = max_user_connections=(\d+)$/gm)].map(([, role = '', n]) => [role, Number(n)]),
    )
    expect(limits.size).toBe(2 * runtimeRoles.length)
    const total = runtimeRoles.reduce((sum, role) => sum + (limits.get(role) ?? Infinity), 0)
    expect(total).toBeLessThanOrEqual(settingOf('max_db_connections'))
    for (const role of runtimeRoles) expect(limits.get(`${role}_b`), role).toBe(limits.get(role))
    expect(settingOf('default_pool_size')).toBeGreaterThanOrEqual(Math.max(...limits.values()))
    const { maxReplicas } = z.looseObject({ maxReplicas: z.number() }).parse(scalingOf('sync'))
    // Two for each run, two runs in each replica, over two pods of PgBouncer.
    expect(2 * (limits.get('postern_sync') ?? 0)).toBeGreaterThanOrEqual(maxReplicas * 4)
  })

  test('has a packet buffer longer than two of the longest statements', () => {
    const texts = globSync(['packages/*/src/**/*.ts', 'services/*/src/**/*.ts'], { cwd: root }).flatMap((path) =>
      [...read(path).matchAll(/`\s*(?:select|with|insert|update|delete)\b[^`]*`/gi)].map(([text]) => text.length),
    )
    expect(texts.length).toBeGreaterThan(200)
    expect(settingOf('pkt_buf')).toBeGreaterThanOrEqual(2 * Math.max(...texts))
    // Too small for pages of entities and their count.
    expect(settingOf('pkt_buf')).toBeGreaterThan(4096)
  })

  test('times out later than PostgreSQL', () => {
    const ofRoles = read('packages/tenant-db/src/roles.ts')
    const idle = Number(/idle_in_transaction_session_timeout: '(\d+)s'/.exec(ofRoles)?.[1])
    const longest = Number(/'statement_timeout', '(\d+)'/.exec(read('services/sync/src/worker/store.ts'))?.[1]) / 1000
    expect(settingOf('idle_transaction_timeout')).toBeGreaterThan(idle)
    expect(settingOf('query_timeout')).toBeGreaterThan(longest)
    expect(settingOf('client_login_timeout')).toBeLessThanOrEqual(15)
  })

  test("verifies PostgreSQL's certificate in production", () => {
    const tls = read('deploy/kubernetes/overlays/production/pgbouncer/tls.ini')
    expect(tls).toMatch(/^server_tls_sslmode = verify-full$/m)
    expect(tls).toMatch(/^server_tls_ca_file = \/etc\/pgbouncer\/ca\/ca\.crt$/m)
    // A section in what is included sets what stands above it back to its defaults.
    const parts = ['deploy/pgbouncer/site', 'deploy/kubernetes/overlays/production/pgbouncer']
    for (const part of parts) {
      expect(read(`${part}/database.ini`)).toMatch(/^postern = host=\S+ port=5432 dbname=postern$/m)
      expect(read(`${part}/database.ini`) + read(`${part}/tls.ini`), part).not.toMatch(/^\[/m)
    }
    expect(ini).toMatch(/^\[databases\]\n%include \/etc\/pgbouncer\/site\/database\.ini$/m)
    expect(ini).toMatch(/^%include \/etc\/pgbouncer\/site\/tls\.ini$/m)
  })
})

test('no service times out before PostgreSQL, so that connections survive', () => {
  const seconds = Number(/statement_timeout: '(\d+)s'/.exec(read('packages/tenant-db/src/roles.ts'))?.[1])
  expect(seconds).toBeGreaterThan(0)
  const [, row = ''] = /^\| `POSTERN_DATABASE_QUERY_TIMEOUT_MS` (.+)$/m.exec(read('docs/reference/settings.md')) ?? []
  const [, usual = '', least = ''] = /^\| ([\d,]+) \|.* From ([\d,]+) to /.exec(row) ?? []
  for (const ms of [usual, least]) expect(Number(ms.replaceAll(',', ''))).toBeGreaterThan(seconds * 1000)
  for (const name of ['keys', 'findings', 'universe', 'evidence', 'sync']) {
    const text = read(`services/${name}/src/deps.ts`)
    expect(text, name).toContain('...config.database,')
    // The pool of workers has a limit of its own.
    for (const [, ms = ''] of text.matchAll(/QueryTimeoutMs = (\d[\d_]*)/g)) {
      expect(Number(ms.replaceAll('_', '')), name).toBeGreaterThan(seconds * 1000)
    }
  }
})

function numbersOf(text: string): number[] {
  return [...text.matchAll(/\d+(?:\.\d+)?/g)].map(([number]) => Number(number))
}

/** Returns the settings of a workload's autoscaler. */
function scalingOf(name: string): unknown {
  return base.find(({ kind, metadata }) => kind === 'HorizontalPodAutoscaler' && metadata.name === name)?.['spec']
}

describe('the documented sizes', () => {
  const section = read('docs/operations/sizes.md')
  const [, least = 0, most = 0] = (/\*\*(\d+) to (\d+) µs of a processor\*\*/.exec(section) ?? []).map(Number)

  test.each([
    ['100,000 a minute', 100_000],
    ['10 million a minute', 10_000_000],
  ])('of gateways at %s follow from the measured cost of a request', (load, perMinute) => {
    const [, cell = ''] = new RegExp(`^\\| ${load} [^|]*\\| ([^|]*) \\|`, 'm').exec(section) ?? []
    const processors = [least, most].map((micros) => (perMinute / 60) * micros * 1e-6)
    const planned = processors.map((each) => each * 2)
    const gateways = planned.map((each) => Math.max(2, Math.ceil(each / 0.6)))
    const [low, high, plannedLow, plannedHigh, ...counts] = numbersOf(cell)
    const digits = perMinute > 1_000_000 ? 0 : 1
    expect([low, high, plannedLow, plannedHigh].map((each) => each?.toFixed(digits))).toEqual(
      [...processors, ...planned].map((each) => each.toFixed(digits)),
    )
    for (const count of new Set(gateways)) expect(counts).toContain(count)
  })

  test('of lists follow from the measured cost of a page', () => {
    const [paragraph = ''] = section.split('\n\n').filter((text) => text.startsWith('**Lists cost most**'))
    const service = Number(/takes ([\d.]+) ms of a processor/.exec(paragraph)?.[1])
    const all = ((100_000 / 60) * service) / 1000
    const stated = [all / 10, (all / 10) * 2, all, all * 2, all * 10, all * 20].map((each) =>
      each < 2 ? each.toFixed(1) : each.toFixed(0),
    )
    for (const number of stated) expect(paragraph).toMatch(new RegExp(`\\b${number.replace('.', '\\.')}\\b`))
  })

  test('of the overlays match the stated maximum', () => {
    expect(scalingOf('gateway')).toMatchObject({ maxReplicas: 10 })
    expect(scalingOf('keys')).toMatchObject({ maxReplicas: 4 })
    expect(section).toContain('stop at 10 gateways and 4 replicas of keys')
  })
})

test('the sync service has enough memory for its concurrent runs', () => {
  // `npm run bench -- --only sync-memory`, 2026-11-23: a run over 1,000,000 rows.
  const peak = 247
  const limits = workloadsOf(base).find(({ name }) => name === 'sync')?.pod.containers[0]?.resources.limits
  const [, workers] =
    /POSTERN_SYNC_WORKERS: settings\s*\.integer\(\{[^}]*fallback: (\d+)/.exec(read('services/sync/src/config.ts')) ?? []
  expect(mebibytes(limits?.memory ?? '')).toBeGreaterThanOrEqual(Number(workers) * peak)
})

describe('the containers of the compose file', () => {
  const { services } = z
    .looseObject({
      services: z.record(
        z.string(),
        z.looseObject({
          mem_limit: z.string(),
          pids_limit: z.number(),
          logging: z.unknown(),
          cpu_shares: z.number().default(1024),
        }),
      ),
    })
    .parse(parse(read('deploy/compose.yaml'), { merge: true }))

  test('have configurable limits for memory, processes and logs', () => {
    expect(Object.keys(services)).toHaveLength(13)
    for (const [name, { mem_limit: memory, pids_limit: processes, logging }] of Object.entries(services)) {
      expect(memory, name).toMatch(new RegExp(`^\\$\\{POSTERN_${name.toUpperCase()}_MEMORY:-\\d+[mg]\\}$`))
      expect(processes, name).toBeGreaterThanOrEqual(64)
      expect(logging, name).toEqual({
        driver: 'json-file',
        options: {
          'max-size': '${POSTERN_LOG_SIZE:-20m}',
          // That of keys is what a restore repeats revocations from.
          'max-file': name === 'keys' ? '${POSTERN_KEYS_LOG_FILES:-500}' : '${POSTERN_LOG_FILES:-5}',
        },
      })
    }
  })

  test('give processor time first to services that every request needs, and last to starting ones', () => {
    const weights = Object.entries(services).map(([name, { cpu_shares: shares }]) => [shares, name] as const)
    const names = Map.groupBy(weights, ([shares]) => shares)
    const ranked = [...names]
      .toSorted(([one], [other]) => other - one)
      .map(([, rank]) => rank.map(([, name]) => name).toSorted())
    expect(ranked.slice(0, 2)).toEqual([
      ['pgbouncer', 'postgres', 'redis'],
      ['gateway', 'keys', 'store'],
    ])
    expect(ranked).toHaveLength(3)
  })

  /** MiB. */
  function given(name: string): number {
    const [, number, unit] = /:-(\d+)([mg])\}$/.exec(services[name]?.mem_limit ?? '') ?? []
    return Number(number) * (unit === 'g' ? 1024 : 1)
  }

  test('have the memory limits of the Kubernetes base, and of the smallest size for PostgreSQL and Redis', () => {
    const limits = workloadsOf(base).map(({ name, pod }) => [name, pod.containers[0]?.resources.limits.memory] as const)
    expect(limits.length).toBeGreaterThan(9)
    for (const [name, memory] of limits) expect(given(name), name).toBe(mebibytes(memory ?? ''))
    const [row = ''] = rowsOf('docs/operations/sizes.md', '## By load').filter((line) =>
      line.startsWith('| 1,000 a minute'),
    )
    const [, postgres = '', redis = ''] = /, (\d+) GiB \| 1 node, (\d+) MiB \|$/.exec(row) ?? []
    expect(given('postgres')).toBe(Number(postgres) * 1024)
    expect(given('redis')).toBe(Number(redis) * 1.5)
  })
})

test('every third-party image has an exact version', () => {
  const files = [
    'deploy/compose.yaml',
    'deploy/Dockerfile',
    'deploy/pgbouncer/Dockerfile',
    'deploy/store/Dockerfile',
    'deploy/kubernetes/overlays/development/postgres.yaml',
    'deploy/kubernetes/overlays/development/redis.yaml',
  ]
  const images = files.flatMap((path) =>
    [...read(path).matchAll(/(?:image: |^ARG \w*IMAGE=)(?:\$\{\w+:-)?([^\s$}]+)/gm)].map(([, image = '']) => image),
  )
  const others = images.filter((image) => !/^postern(?:-pgbouncer|-store)?:local$/.test(image))
  expect(others.map((image) => image.split(':')[0]).toSorted()).toEqual(
    ['debian', 'debian', 'node', 'postgres', 'postgres', 'valkey/valkey', 'valkey/valkey'].toSorted(),
  )
  expect(others.filter((image) => !/:(?:\d+\.\d+(?:\.\d+)?|[a-z]+-\d{8})(?:-[a-z]+)*$/.test(image))).toEqual([])
  expect(read('deploy/pgbouncer/Dockerfile')).toMatch(/^ARG PGBOUNCER_VERSION=\d+\.\d+\.\d+$/m)
  expect(read('deploy/store/Dockerfile')).toMatch(/^ARG SWIFT_VERSION=\d+\.\d+\.\d+$/m)
  // One Debian, so that a site has one base to look after.
  expect(new Set(others.filter((image) => image.startsWith('debian:'))).size).toBe(1)
})

/** The rows of the tables below a heading. */
function rowsOf(path: string, heading: string): string[] {
  const section = read(path).split(`\n${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  return section.split('\n').filter((line) => line.startsWith('| '))
}

describe('every secret', () => {
  const files = [...new Set(componentNames.flatMap((name) => filesOf(name)))]

  test('is in the table of SECURITY.md with its owners', () => {
    const table = rowsOf('SECURITY.md', '## Secrets')
      .join('\n')
      .replaceAll('<SERVICE>', '(?:KEYS|FINDINGS|UNIVERSE|EVIDENCE|SYNC)')
    const known = [...table.matchAll(/`([^`]+)`/g)].map(([, name = '']) => new RegExp(`^${name}$`))
    expect(files.length).toBeGreaterThan(25)
    expect(files.filter((name) => !known.some((pattern) => pattern.test(name)))).toEqual([])
  })

  test('has its rotation in the operations guide', () => {
    const table = rowsOf('docs/operations/rotate-secrets.md', '## Rings').join('\n')
    const passwords = /`password-keys`, `-findings`, `-universe`, `-evidence`, `-sync`, of PostgreSQL/
    expect(table).toMatch(passwords)
    const named = rotatableNames.filter((name) => !/^password-(?!redis|store|migrator)/.test(name))
    const others = ['password-superuser', 'oidc-client-secret', 'POSTERN_BLOB_S3_ACCESS_KEY_ID']
    expect([...named, ...others].filter((name) => !table.includes(`\`${name}\``))).toEqual([])
  })
})
