import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { componentNames, filesOf, rotatableNames } from '@postern/installation'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { readResources, workloadsOf } from '../support/manifests.ts'

const root = join(import.meta.dirname, '..', '..')
const deploy = join(root, 'deploy')
const base = readResources(join(deploy, 'kubernetes/base'))

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

  test('never opens more connections than PostgreSQL has by default, in all its pods, while they are replaced too', () => {
    const { replicas, strategy } = z
      .looseObject({
        replicas: z.number(),
        strategy: z.looseObject({ rollingUpdate: z.object({ maxSurge: z.number(), maxUnavailable: z.number() }) }),
      })
      .parse(base.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'pgbouncer')?.['spec'])
    const pods = replicas + strategy.rollingUpdate.maxSurge
    // Five roles; ten are left for the migrations, whoever looks, and those that PostgreSQL keeps for superusers.
    const connections = pods * Math.min(settingOf('max_db_connections'), 5 * settingOf('default_pool_size'))
    expect(connections).toBeLessThanOrEqual(100 - 10)
    expect(settingOf('max_db_connections')).toBeGreaterThanOrEqual(settingOf('default_pool_size'))
  })

  test('gives up on what PostgreSQL should have ended, and no sooner', () => {
    const ofRoles = read('packages/tenant-db/src/roles.ts')
    const idle = Number(/idle_in_transaction_session_timeout: '(\d+)s'/.exec(ofRoles)?.[1])
    const longest = Number(/'statement_timeout', '(\d+)'/.exec(read('services/sync/src/worker/store.ts'))?.[1]) / 1000
    expect(settingOf('idle_transaction_timeout')).toBeGreaterThan(idle)
    expect(settingOf('query_timeout')).toBeGreaterThan(longest)
    expect(settingOf('client_login_timeout')).toBeLessThanOrEqual(15)
  })

  test('checks who PostgreSQL is in production', () => {
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

test('the sync service has the memory that its runs were measured to take, for as many as it carries out at once', () => {
  const measured = z
    .looseObject({
      parts: z.looseObject({
        'sync-memory': z.looseObject({ figures: z.array(z.looseObject({ peakMiB: z.number() })).min(1) }),
      }),
    })
    .parse(JSON.parse(read('bench/results.json')))
  const peak = Math.max(...measured.parts['sync-memory'].figures.map(({ peakMiB }) => peakMiB))
  const limits = workloadsOf(base).find(({ name }) => name === 'sync')?.pod.containers[0]?.resources.limits
  const [, workers] =
    /POSTERN_SYNC_WORKERS: settings\.integer\(\{[^}]*fallback: (\d+)/.exec(read('services/sync/src/config.ts')) ?? []
  expect(mebibytes(limits?.memory ?? '')).toBeGreaterThanOrEqual(Number(workers) * peak)
})

test('every image that is not ours has an exact version', () => {
  const files = [
    'deploy/compose.yaml',
    'deploy/Dockerfile',
    'deploy/pgbouncer/Dockerfile',
    'deploy/kubernetes/overlays/development/postgres.yaml',
    'deploy/kubernetes/overlays/development/redis.yaml',
  ]
  const images = files.flatMap((path) =>
    [...read(path).matchAll(/(?:image: |^ARG \w*IMAGE=)(?:\$\{\w+:-)?([^\s$}]+)/gm)].map(([, image = '']) => image),
  )
  const others = images.filter((image) => !/^postern(?:-pgbouncer)?:local$/.test(image))
  expect(others.map((image) => image.split(':')[0]).toSorted()).toEqual(
    ['debian', 'node', 'postgres', 'postgres', 'redis', 'redis'].toSorted(),
  )
  expect(others.filter((image) => !/:(?:\d+\.\d+(?:\.\d+)?|[a-z]+-\d{8})(?:-[a-z]+)*$/.test(image))).toEqual([])
  expect(read('deploy/pgbouncer/Dockerfile')).toMatch(/^ARG PGBOUNCER_VERSION=\d+\.\d+\.\d+$/m)
})

/** The rows of the tables below a heading. */
function rowsOf(path: string, heading: string): string[] {
  const section = read(path).split(`\n${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  return section.split('\n').filter((line) => line.startsWith('| '))
}

describe('every secret', () => {
  const files = [...new Set(componentNames.flatMap((name) => filesOf(name)))]

  test('is in the table of SECURITY.md, with who has it', () => {
    const table = rowsOf('SECURITY.md', '## Secrets')
      .join('\n')
      .replaceAll('<SERVICE>', '(?:KEYS|FINDINGS|UNIVERSE|EVIDENCE|SYNC)')
    const known = [...table.matchAll(/`([^`]+)`/g)].map(([, name = '']) => new RegExp(`^${name}$`))
    expect(files.length).toBeGreaterThan(25)
    expect(files.filter((name) => !known.some((pattern) => pattern.test(name)))).toEqual([])
  })

  test('has its rotation in the runbook', () => {
    const table = rowsOf('deploy/runbook.md', '## Rotating secrets').join('\n')
    const passwords = /`password-keys`, `-findings`, `-universe`, `-evidence`, `-sync`, of PostgreSQL/
    expect(table).toMatch(passwords)
    const named = rotatableNames.filter((name) => !/^password-(?!redis|migrator)/.test(name))
    const others = ['password-superuser', 'oidc-client-secret', 'POSTERN_BLOB_S3_ACCESS_KEY_ID']
    expect([...named, ...others].filter((name) => !table.includes(`\`${name}\``))).toEqual([])
  })
})
