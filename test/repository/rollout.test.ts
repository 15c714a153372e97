import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findKubectl } from '@postern/local-stack/testing'
import { afterAll, describe, expect, test } from 'vitest'
import { readResources } from '../support/manifests.ts'

const kubernetes = join(import.meta.dirname, '..', '..', 'deploy', 'kubernetes')
const base = readResources(join(kubernetes, 'base'))
const folder = mkdtempSync(join(tmpdir(), 'rollout-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const kubectl = await findKubectl()
if (typeof kubectl === 'string') process.stdout.write(`the patch of rollout.sh is not tried: ${kubectl}\n`)

const edge = ['gateway', 'console']
const services = ['pgbouncer', 'keys', 'findings', 'universe', 'evidence', 'sync']

/** Who asks whom while carrying out a write (docs/architecture.md, "Who calls whom"). */
const asking = [
  ['findings', 'universe'],
  ['findings', 'evidence'],
  ['evidence', 'universe'],
  ['sync', 'universe'],
] as const

const pinned = `registry.example/postern@sha256:${'0a'.repeat(32)}`

/** Returns the script's calls to a cluster, one a line. The call `failing` fails; `images` are those of the overlay. */
function rollout(
  args: readonly string[],
  failing = 'none',
  images: readonly string[] = [pinned],
): { readonly calls: string[]; readonly status: number | null } {
  const record = join(folder, 'calls')
  writeFileSync(record, '')
  const containers = images.map((image) => `      - image: ${image}\n        name: x\n`).join('')
  writeFileSync(join(folder, 'rendered'), `kind: Deployment\nspec:\n    containers:\n${containers}`)
  writeFileSync(
    join(folder, 'kubectl'),
    `#!/bin/sh\ncase "$*" in *'${failing}'*) echo "$*" >> '${record}'; exit 1;; kustomize*) cat '${join(folder, 'rendered')}'; exit;; esac\n` +
      `echo "$*" >> '${record}'\n`,
  )
  chmodSync(join(folder, 'kubectl'), 0o755)
  const { status } = spawnSync('sh', [join(kubernetes, 'rollout.sh'), ...args], {
    env: { PATH: `${folder}:/usr/bin:/bin` },
  })
  return { calls: readFileSync(record, 'utf8').trim().split('\n'), status }
}

/** The objects that a selector of ours picks. */
function picked(selector: string | undefined): { readonly kind: string; readonly name: string }[] {
  const [, list] = /^postern\/phase notin \((.*)\)$/.exec(selector ?? '') ?? []
  const [, phase] = /^postern\/phase=([\w-]+)$/.exec(selector ?? '') ?? []
  if (selector !== undefined && list === undefined && phase === undefined) throw new Error(`cannot read ${selector}`)
  return base
    .filter(({ metadata: { labels } }) => {
      const its = labels['postern/phase'] ?? ''
      return list === undefined ? phase === undefined || its === phase : !list.split(', ').includes(its)
    })
    .map(({ kind, metadata }) => ({ kind, name: metadata.name }))
}

/** Returns the changes and waits in order: `change NAME`, `wait NAME` of each workload. */
function stepsOf(calls: readonly string[]): string[] {
  return calls.flatMap((call) => {
    const [, waited] = /(?:rollout status deployment|wait .* job)\/(\S+)/.exec(call) ?? []
    if (waited !== undefined) return [`wait ${waited}`]
    const [, selector] = /^apply --kustomize \S+(?: --selector (.*))?$/.exec(call) ?? []
    if (!call.startsWith('apply ')) return []
    return picked(selector).flatMap(({ kind, name }) => (/^(?:Deployment|Job)$/.test(kind) ? [`change ${name}`] : []))
  })
}

function positions(steps: readonly string[], verb: 'change' | 'wait', names: readonly string[]): number[] {
  const found = names.map((name) => steps.indexOf(`${verb} ${name}`))
  expect(found, names.join()).not.toContain(-1)
  return found
}

describe('a release is rolled out', () => {
  const { calls, status } = rollout(['overlay'])
  const steps = stepsOf(calls)

  test('applies every object once and changes no workload twice', () => {
    expect(status).toBe(0)
    const selectors = calls.flatMap((call) => /^apply .* --selector (.*)$/.exec(call)?.[1] ?? [])
    const all = selectors.flatMap((selector) => picked(selector)).map(({ kind, name }) => `${kind} ${name}`)
    const there = base.map(({ kind, metadata }) => `${kind} ${metadata.name}`)
    expect(new Set(all)).toEqual(new Set(there))
    const changes = steps.filter((step) => step.startsWith('change '))
    expect(new Set(changes).size).toBe(changes.length)
  })

  test('applies policies and the namespace first, and completes migrations before services change', () => {
    expect(picked(/ --selector (.*)$/.exec(calls[0] ?? '')?.[1]).map(({ kind }) => kind)).toContain('NetworkPolicy')
    const [migrated = -1] = positions(steps, 'wait', ['migrate'])
    expect(Math.min(...positions(steps, 'change', [...services, ...edge]))).toBeGreaterThan(migrated)
  })

  test.each(asking)('updates %s after every %s that it calls', (asker, asked) => {
    const [changed = -1] = positions(steps, 'change', [asker])
    expect(changed).toBeGreaterThan(Math.max(...positions(steps, 'wait', [asked])))
  })

  test('updates gateways and consoles after every service', () => {
    const serving = Math.max(...positions(steps, 'wait', services))
    expect(Math.min(...positions(steps, 'change', edge))).toBeGreaterThan(serving)
    expect(Math.min(...positions(steps, 'wait', edge))).toBeGreaterThan(serving)
  })

  test.each([
    ['migrations fail', 'wait --for=condition=complete', [...services, ...edge]],
    ['a service does not become ready', 'deployment/evidence', edge],
  ])('stops if %s', (_what, failing, untouched) => {
    const stopped = rollout(['overlay'], failing)
    expect(stopped.status).not.toBe(0)
    const changed = stepsOf(stopped.calls)
    expect(untouched.filter((name) => changed.includes(`change ${name}`))).toEqual([])
  })
})

describe('migrations only', () => {
  test('change no Deployment', () => {
    const { calls, status } = rollout(['--migrate-only', 'overlay'])
    expect(status).toBe(0)
    expect(stepsOf(calls)).toEqual(['change migrate', 'wait migrate'])
    expect(calls.join('\n')).not.toContain('retire')
  })

  test('retire assertion keys with an additional argument of the same Job', () => {
    const { calls, status } = rollout(['--migrate-only', '--retire-assertion-keys', 'overlay'])
    expect(status).toBe(0)
    // A pipe: its parts are written down in any order, each of them once.
    const parts = calls.filter((call) => /^(?:apply .*--dry-run=client|patch --local|create --filename)/.test(call))
    expect(parts.map((call) => call.split(' ')[0]).toSorted()).toEqual(['apply', 'create', 'patch'])
    expect(calls.filter((call) => call.includes('phase=migrate'))).toEqual([
      expect.stringContaining('--dry-run=client --output json'),
    ])
    expect(calls.filter((call) => /rollout status/.test(call))).toEqual([])
  })

  test('report a failure without waiting', () => {
    const { calls, status } = rollout(['--migrate-only', 'overlay'], 'condition=complete')
    expect(status).toBe(1)
    expect(calls.filter((call) => call.includes('condition=failed'))).toHaveLength(1)
  })

  test.each([[['--retire-assertion-keys', 'overlay']], [['--force', 'overlay']], [[]], [['--migrate-only']]])(
    'nothing is done for %j',
    (args) => {
      const { calls, status } = rollout(args)
      expect([calls, status]).toEqual([[''], 2])
    },
  )

  test.skipIf(typeof kubectl === 'string')('kubectl adds the argument behind those that are there', () => {
    const [, patch = ''] = /argument='(.*)'/.exec(readFileSync(join(kubernetes, 'rollout.sh'), 'utf8')) ?? []
    const job = base.find(({ kind }) => kind === 'Job')
    const { stdout } = spawnSync(
      typeof kubectl === 'string' ? '' : kubectl.command,
      ['patch', '--local', '--filename', '-', '--type', 'json', '--patch', patch, '--output', 'json'],
      { input: JSON.stringify(job), encoding: 'utf8' },
    )
    expect(JSON.parse(stdout)).toMatchObject({
      spec: {
        template: {
          spec: { containers: [{ args: ['packages/cli/dist/main.js', 'migrate', '--retire-assertion-keys'] }] },
        },
      },
    })
  })
})

test('the runbook needs no PgBouncer administrator, because there is none', () => {
  const ini = readFileSync(join(kubernetes, '..', 'pgbouncer/pgbouncer.ini'), 'utf8')
  expect(ini).not.toMatch(/^(?:stats|admin)_users/m)
  expect(readFileSync(join(kubernetes, '../../docs/operations/rotate-secrets.md'), 'utf8')).not.toMatch(/`SHOW /)
})

test('a rollback replaces gateways and consoles before services, without migrations', () => {
  const { calls, status } = rollout(['--back', 'overlay'])
  expect(status).toBe(0)
  const steps = stepsOf(calls)
  const entered = Math.max(...positions(steps, 'wait', edge))
  expect(Math.min(...positions(steps, 'change', services))).toBeGreaterThan(entered)
  for (const [asker, asked] of asking) {
    const [changed = -1] = positions(steps, 'change', [asked])
    expect(changed, asked).toBeGreaterThan(Math.max(...positions(steps, 'wait', [asker])))
  }
  expect(steps.filter((step) => step.endsWith(' migrate'))).toEqual([])
})

describe('an image without a digest', () => {
  const unpinned = [
    ['a tag', [pinned, 'registry.example/postern-pgbouncer:1.0.0']],
    ['nothing', ['postern']],
    ['half a digest', [pinned.slice(0, -1)]],
    ['no image at all', []],
  ] as const

  test.each(unpinned)('in %s is rejected before the cluster changes', (_what, images) => {
    for (const args of [['overlay'], ['--back', 'overlay'], ['--migrate-only', 'overlay']]) {
      expect(rollout(args, 'none', images)).toEqual({ calls: [''], status: 2 })
    }
  })

  test('is accepted only for development, which builds its own', () => {
    expect(rollout(['overlays/development'], 'none', ['postern:local']).status).toBe(0)
    expect(rollout(['overlays/development-copy'], 'none', ['postern:local']).status).toBe(2)
  })
})
