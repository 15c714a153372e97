import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { routeTable } from '@postern/contracts'
import { initSecrets } from '@postern/installation'
import { findKubectl } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import * as console from '../../services/console/src/config.ts'
import * as evidence from '../../services/evidence/src/config.ts'
import * as findings from '../../services/findings/src/config.ts'
import * as gateway from '../../services/gateway/src/config.ts'
import * as keys from '../../services/keys/src/config.ts'
import * as sync from '../../services/sync/src/config.ts'
import * as universe from '../../services/universe/src/config.ts'
import { idleConnections } from '../../packages/service-kit/src/connection.ts'
import { kubernetesFaults } from '../support/kubernetes-schema.ts'
import {
  type Manifest,
  type Workload,
  arrowsOf,
  drawnArrows,
  networkPoliciesOf,
  readResources,
  renderOverlay,
  workloadsOf,
} from '../support/manifests.ts'

const deploy = join(import.meta.dirname, '..', '..', 'deploy')
const services = { gateway, console, keys, findings, universe, evidence, sync } as const
type ServiceName = keyof typeof services
const serviceNames = [
  'gateway',
  'console',
  'keys',
  'findings',
  'universe',
  'evidence',
  'sync',
] as const satisfies ServiceName[]

const secretsMount = '/etc/postern/secrets/'
const folder = mkdtempSync(join(tmpdir(), 'kubernetes-'))
const secrets = join(folder, 'kubernetes/overlays/development/secrets')
const base = readResources(join(deploy, 'kubernetes/base'))
const kubectl = await findKubectl()
if (typeof kubectl === 'string') process.stdout.write(`overlays are not rendered: ${kubectl}\n`)
const program = typeof kubectl === 'string' ? '' : kubectl.command

beforeAll(async () => {
  cpSync(join(deploy, 'kubernetes'), join(folder, 'kubernetes'), { recursive: true })
  await initSecrets(secrets, {
    postgres: 'postgres:5432',
    pooler: 'pgbouncer:6432',
    redis: 'redis:6379',
    database: 'postern',
  })
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** What the process in a pod finds in its environment, the paths of its secrets being ours. */
function environmentOf(workload: Workload): Record<string, string> {
  const container = workload.pod.containers[0]
  const entries = (container?.env ?? []).map(({ name, value }) => {
    return [name, value.replace(secretsMount, `${secrets}/${workload.name}/`)] as const
  })
  return Object.fromEntries(entries)
}

/** The variables that a service asks for. */
function knownVariables(name: ServiceName): Set<string> {
  const asked = new Set<string>()
  const env = new Proxy<Record<string, string>>({}, { get: (_target, key) => void asked.add(String(key)) })
  expect(() => services[name].readConfig(env)).toThrow('must be set')
  return asked
}

/** The OpenID provider is outside every cluster: policies know its network, the configuration its name. */
const provider = '203.0.113.0/24:443'

/** Where a process connects to: every URL in its environment and in its secrets, as `host:port`. */
function destinations(workload: Workload): string[] {
  if (workload.name === 'pgbouncer') {
    const ini = readFileSync(join(deploy, 'pgbouncer/site/database.ini'), 'utf8')
    return [...ini.matchAll(/host=(\S+) port=(\d+)/g)].map(([, host, port]) => `${host}:${port}`)
  }
  // Names that the console shows, and does not reach.
  const { POSTERN_CONSOLE_URL: _own, POSTERN_API_URL: _shown, ...environment } = environmentOf(workload)
  const texts = Object.entries(environment).map(([name, value]) =>
    name.endsWith('_FILE') ? readFileSync(value, 'utf8').trim() : value,
  )
  const urls = texts.filter((text) => text.includes('://')).map((text) => new URL(text))
  return [...new Set(urls.map((url) => (url.hostname === 'sign-in.example' ? provider : url.host)))].toSorted()
}

function findWorkload(manifests: readonly Manifest[], name: string): Workload {
  const found = workloadsOf(manifests).find((each) => each.name === name)
  if (found === undefined) throw new Error(`no workload is called ${name}`)
  return found
}

/** The rules that hold wherever it is deployed. */
function describeObjects(read: () => Manifest[]): void {
  test('are what the schemas of Kubernetes allow, without a field that they do not know', async () => {
    const faults: string[] = []
    // Secrets are kustomize's own work, and their values are wrapped base64, which the validators do not know.
    for (const manifest of read().filter(({ kind }) => kind !== 'Secret')) {
      for (const fault of await kubernetesFaults(manifest)) {
        faults.push(`${manifest.kind} ${manifest.metadata.name}: ${fault}`)
      }
    }
    expect(faults).toEqual([])
  })

  test('give no container more than it needs: no root, no writing, no escalation, no capability, no token', () => {
    const workloads = workloadsOf(read())
    expect(workloads.length).toBeGreaterThan(8)
    for (const { name, pod } of workloads) {
      expect(pod, name).toMatchObject({
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      })
      expect(pod.securityContext.runAsUser, name).toBeGreaterThan(0)
      expect([pod['hostNetwork'], pod['hostPID'], pod['hostIPC']], name).toEqual([undefined, undefined, undefined])
      for (const volume of pod.volumes) expect(volume, name).not.toHaveProperty('hostPath')
      for (const container of [...pod.initContainers, ...pod.containers]) {
        expect(container.securityContext, name).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        })
      }
    }
  })

  test('name no secret value in an environment', () => {
    const names = workloadsOf(read()).flatMap(({ pod }) => pod.containers.flatMap(({ env }) => env.map((e) => e.name)))
    const secret =
      /SIGNING|ASSERTION|INTERNAL|CACHE_MAC|PASSWORD|DATABASE_URL|REDIS_URL|SUPERUSER|MIGRATOR|CONSOLE_SESSION|CLIENT_SECRET|_KEY(?:_|$)/
    expect(names.filter((name) => secret.test(name) && !name.endsWith('_FILE'))).toEqual([])
    expect(names.filter((name) => secret.test(name)).length).toBeGreaterThan(20)
  })

  test.each(serviceNames)('give %s every setting that it needs, and none that it does not know', (name) => {
    const found = findWorkload(read(), name)
    const env = environmentOf(found)
    const known = knownVariables(name)
    expect(Object.keys(env).filter((variable) => !known.has(variable))).toEqual([])
    expect(services[name].readConfig(env)).toMatchObject({ host: '0.0.0.0', port: 8080 })
    expect(found.pod.containers[0]?.args).toEqual([`services/${name}/dist/main.js`])
    const probe = JSON.stringify([found.pod.containers[0]?.readinessProbe, found.pod.containers[0]?.livenessProbe])
    expect(probe).toContain('/internal/health/ready')
    expect(probe).toContain('/internal/health/live')
  })

  test.each(serviceNames)('let %s drain for longer than its idle connections live', (name) => {
    const { drainMs } = services[name].readConfig(environmentOf(findWorkload(read(), name)))
    // undici closes them up to a second later than asked.
    expect(drainMs).toBeGreaterThan(idleConnections.keepAliveMaxTimeout + 1000)
  })

  test('tell a gateway how many share the limits: as many as the autoscaler may make, and one more in a rollout', () => {
    const count = environmentOf(findWorkload(read(), 'gateway'))['POSTERN_GATEWAY_COUNT']
    const autoscaler = read().find(
      (each) => each.kind === 'HorizontalPodAutoscaler' && each.metadata.name === 'gateway',
    )
    const { maxReplicas } = z.looseObject({ maxReplicas: z.number() }).parse(autoscaler?.['spec'])
    const deployed = read().find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'gateway')
    expect(deployed?.['spec']).toMatchObject({ strategy: { rollingUpdate: { maxSurge: 1 } } })
    expect(Number(count)).toBe(maxReplicas + 1)
  })

  test('keep one replica of whatever answers requests while nodes are drained', () => {
    for (const name of [...serviceNames, 'pgbouncer']) {
      const budget = read().find((each) => each.kind === 'PodDisruptionBudget' && each.metadata.name === name)
      expect(budget?.['spec'], name).toEqual({
        maxUnavailable: 1,
        selector: { matchLabels: { 'app.kubernetes.io/name': name } },
      })
    }
  })

  test('let nothing in and nothing out that no policy names', () => {
    const policies = networkPoliciesOf(read())
    expect(policies.find(({ metadata }) => metadata.name === 'default-deny')?.spec).toEqual({
      podSelector: {},
      policyTypes: ['Ingress', 'Egress'],
      ingress: [],
      egress: [],
    })
    for (const { name, labels } of workloadsOf(read())) {
      expect(labels['app.kubernetes.io/name']).toBe(name)
      const own = policies.filter(({ spec }) => spec.podSelector.matchLabels?.['app.kubernetes.io/name'] === name)
      const types = own.map(({ spec }) => spec.policyTypes)
      expect(types, name).toContainEqual(['Ingress', 'Egress'])
    }
    const names = {
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } },
      podSelector: { matchLabels: { 'k8s-app': 'kube-dns' } },
    }
    const ports = ['UDP', 'TCP'].map((protocol) => ({ protocol, port: 53 }))
    const mute = { key: 'app.kubernetes.io/name', operator: 'NotIn', values: ['postgres', 'redis'] }
    const dns = {
      podSelector: { matchExpressions: [mute] },
      policyTypes: ['Egress'],
      ingress: [],
      egress: [{ to: [names], ports }],
    }
    expect(policies.find(({ metadata }) => metadata.name === 'allow-dns')?.spec).toEqual(dns)
    // That one is about every pod; each other one is about pods that it names.
    const everywhere = policies.filter(({ spec }) => Object.keys(spec.podSelector).length === 0)
    expect(everywhere.map(({ metadata }) => metadata.name).toSorted()).toEqual(['default-deny'])
  })

  test('open no way to everywhere', () => {
    const ranges = arrowsOf(read(), 'egress').flatMap((arrow) => / > (\S+\/\d+):\d+$/.exec(arrow)?.[1] ?? [])
    expect(ranges.filter((range) => Number(range.split('/')[1]) < 16)).toEqual([])
  })
}

/** The arrows that there must be: where each process is configured to connect to. */
function configuredArrows(manifests = base): string[] {
  return workloadsOf(manifests)
    .flatMap((each) => destinations(each).map((destination) => `${each.name} > ${destination}`))
    .toSorted()
}

describe('the objects of the base', () => {
  describeObjects(() => base)

  test('let a pod reach exactly what it is configured to reach', () => {
    expect(configuredArrows()).toEqual(expect.arrayContaining(['gateway > redis:6379', 'console > gateway:8080']))
    expect(arrowsOf(base, 'egress')).toEqual(configuredArrows())
  })

  test('let a pod be reached by exactly those, by the ingress, and by the monitoring', () => {
    const outside = [
      'namespace:ingress > gateway:8080',
      'namespace:monitoring > gateway:9080',
      'namespace:ingress > console:8080',
      'namespace:monitoring > console:9080',
      ...serviceNames
        .filter((name) => name !== 'gateway' && name !== 'console')
        .map((name) => `namespace:monitoring > ${name}:8080`),
    ]
    expect(arrowsOf(base, 'ingress')).toEqual([...configuredArrows(), ...outside].toSorted())
  })

  test('let the gateway reach the services that routes lead to, and no other', () => {
    const leading = new Set(routeTable.map(({ upstream }) => upstream).filter((name) => name !== 'gateway'))
    const arrows = [...leading].map((name) => `gateway > ${name}:8080`).toSorted()
    expect(arrows).toHaveLength(5)
    for (const direction of ['egress', 'ingress'] as const) {
      const found = arrowsOf(base, direction).filter((arrow) => /^gateway > [a-z]+:8080$/.test(arrow))
      expect(found, direction).toEqual(arrows)
    }
  })

  test('are the arrows that ARCHITECTURE.md draws', () => {
    const ports: Readonly<Record<string, number>> = { redis: 6379, pgbouncer: 6432, postgres: 5432 }
    expect(arrowsOf(base, 'egress')).toEqual(
      drawnArrows()
        .map(([from, to]) => `${from} > ${to}:${ports[to] ?? 8080}`)
        .toSorted(),
    )
  })

  test('keep the edge away from PostgreSQL', () => {
    expect(configuredArrows().filter((arrow) => /^(?:gateway|console) > (?:postgres|pgbouncer)/.test(arrow))).toEqual(
      [],
    )
  })
})

describe.skipIf(program === '')('the development overlay', () => {
  const render = once(() => renderOverlay(program, join(folder, 'kubernetes/overlays/development')))
  describeObjects(render)

  test('hands each component the secrets that it mounts', () => {
    const names = render().flatMap(({ kind, metadata }) => (kind === 'Secret' ? [metadata.name] : []))
    const mounted = workloadsOf(render()).flatMap(({ pod }) => pod.volumes.flatMap((v) => secretName(v)))
    expect(mounted.toSorted()).toEqual(names.toSorted())
  })

  test('changes no arrow', () => {
    expect(arrowsOf(render(), 'egress')).toEqual(arrowsOf(base, 'egress'))
    expect(arrowsOf(render(), 'ingress')).toEqual(arrowsOf(base, 'ingress'))
  })
})

describe.skipIf(program === '')('the production overlay', () => {
  const render = once(() => renderOverlay(program, join(folder, 'kubernetes/overlays/production')))
  describeObjects(render)

  test('holds no secret', () => {
    expect(render().filter(({ kind }) => kind === 'Secret')).toEqual([])
  })

  test('sends the arrows to PostgreSQL and Redis out of the cluster, adds those to the OpenID provider, and changes no other', () => {
    const outside = arrowsOf(render(), 'egress').map((arrow) =>
      arrow.replace(/192\.0\.2\.\d+\/\d+:5432$/, 'postgres:5432').replace(/192\.0\.2\.\d+\/\d+:6379$/, 'redis:6379'),
    )
    const people = configuredArrows(render()).filter((arrow) => arrow.endsWith(provider))
    expect(people).toEqual([`console > ${provider}`, `gateway > ${provider}`])
    expect(outside.toSorted()).toEqual([...arrowsOf(base, 'egress'), ...people].toSorted())
    expect(arrowsOf(render(), 'egress')).not.toEqual(arrowsOf(base, 'egress'))
    expect(arrowsOf(render(), 'ingress')).toEqual(arrowsOf(base, 'ingress'))
  })

  test('leads from what stands in front to gateway and console alone, for as long as a large body takes', () => {
    expect(render().filter(({ kind }) => kind === 'Ingress')).toEqual([])
    const routes = render().filter(({ kind }) => kind === 'HTTPRoute')
    expect(routes.map(({ metadata }) => metadata.name).toSorted()).toEqual(['console', 'gateway'])
    for (const { metadata, spec } of routes) {
      const service = render().find((each) => each.kind === 'Service' && each.metadata.name === metadata.name)
      expect(service?.['spec']).toMatchObject({ ports: [{ port: 8080 }] })
      expect(spec, metadata.name).toMatchObject({
        parentRefs: [{ sectionName: 'https' }],
        rules: [
          {
            timeouts: { request: '1h', backendRequest: '1h' },
            backendRefs: [{ name: metadata.name, port: 8080 }],
          },
        ],
      })
    }
  })

  test('lets PgBouncer and the migrations check PostgreSQL by the authority of the site', () => {
    for (const [name, mountPath] of [
      ['pgbouncer', '/etc/pgbouncer/ca'],
      ['migrate', '/etc/postern/trust'],
    ] as const) {
      const { pod } = findWorkload(render(), name)
      expect(pod.volumes, name).toContainEqual({ name: 'ca', configMap: { name: 'postgres-ca' } })
      expect(pod.containers[0]?.['volumeMounts'], name).toContainEqual({
        name: 'ca',
        mountPath,
        readOnly: true,
      })
    }
    expect(environmentOf(findWorkload(render(), 'migrate'))['NODE_EXTRA_CA_CERTS']).toBe('/etc/postern/trust/ca.crt')
    expect(findWorkload(render(), 'migrate').pod.volumes.map(({ name }) => name)).toContain('secrets')
  })

  test.each(['gateway', 'keys', 'pgbouncer'])('puts no two of %s on one node while others have fewer', (name) => {
    const spread = findWorkload(render(), name).pod['topologySpreadConstraints']
    expect(spread).toContainEqual(
      expect.objectContaining({
        topologyKey: 'kubernetes.io/hostname',
        maxSkew: 1,
        whenUnsatisfiable: 'DoNotSchedule',
      }),
    )
  })

  test('names a version of every image', () => {
    const images = workloadsOf(render()).flatMap(({ pod }) => pod.containers.map(({ image }) => image))
    expect(
      images.filter((image) => !/^registry\.example\/[a-z-]+(?::\d+\.\d+\.\d+|@sha256:[0-9a-f]{64})$/.test(image)),
    ).toEqual([])
  })
})

describe.skipIf(program === '')('the production overlay with a bucket, sources and traces', () => {
  const render = once(() => {
    const own = join(folder, 'kubernetes/overlays/with-components')
    cpSync(join(folder, 'kubernetes/overlays/production'), own, { recursive: true })
    const path = join(own, 'kustomization.yaml')
    const components = ['evidence-in-s3', 'sources-of-connectors', 'traces']
      .map((name) => `  - ../../components/${name}`)
      .join('\n')
    const chosen = readFileSync(path, 'utf8').replace('  - ../../components/evidence-on-shared-volume', components)
    writeFileSync(path, chosen)
    for (const name of ['POSTERN_BLOB_S3_ACCESS_KEY_ID', 'POSTERN_BLOB_S3_SECRET_ACCESS_KEY']) {
      writeFileSync(join(secrets, 'evidence', name), 'given by who keeps the bucket')
    }
    return renderOverlay(program, own)
  })
  describeObjects(render)

  test('has every component but the one in whose place another is', () => {
    const there = readdirSync(join(folder, 'kubernetes/components'))
    const chosen = readFileSync(join(folder, 'kubernetes/overlays/with-components/kustomization.yaml'), 'utf8')
    expect(render().length).toBeGreaterThan(20)
    expect(there.filter((name) => !chosen.includes(`components/${name}\n`))).toEqual(['evidence-on-shared-volume'])
  })

  test('adds the arrows of its components and no other', () => {
    const production = renderOverlay(program, join(folder, 'kubernetes/overlays/production'))
    const senders = ['gateway', 'keys', 'findings', 'universe', 'evidence', 'sync']
    const added = [
      'evidence > 192.0.2.48/28:443',
      ...[443, 636, 5432, 3306].map((port) => `sync > 192.0.2.64/28:${port}`),
      ...senders.map((name) => `${name} > namespace:monitoring:4318`),
    ]
    expect(arrowsOf(render(), 'egress')).toEqual([...arrowsOf(production, 'egress'), ...added].toSorted())
    expect(arrowsOf(render(), 'ingress')).toEqual(arrowsOf(production, 'ingress'))
  })

  test('sends traces from whoever answers requests, and keeps evidence on no volume', () => {
    for (const name of ['gateway', 'keys', 'findings', 'universe', 'evidence', 'sync']) {
      expect(environmentOf(findWorkload(render(), name))['POSTERN_OTLP_URL'], name).toMatch(/^http/)
    }
    expect(render().filter(({ kind }) => kind === 'PersistentVolumeClaim')).toEqual([])
    expect(findWorkload(render(), 'evidence').pod.volumes.map(({ name }) => name)).toEqual(['secrets'])
  })
})

test('the check against the schemas finds a wrong type, a wrong word and an unknown field', async () => {
  const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'a' } }
  const port = { name: 'http', port: 80 }
  expect(await kubernetesFaults({ ...service, spec: { ports: [port] } })).toEqual([])
  expect(await kubernetesFaults({ ...service, spec: { ports: [{ ...port, port: '80' }] } })).not.toEqual([])
  const route = { apiVersion: 'gateway.networking.k8s.io/v1', kind: 'HTTPRoute', metadata: { name: 'a' } }
  expect(await kubernetesFaults({ ...route, spec: { hostnames: ['a.example'] } })).toEqual([])
  expect(await kubernetesFaults({ ...route, spec: { rules: [{ timeouts: { request: 'an hour' } }] } })).not.toEqual([])
  expect(await kubernetesFaults({ ...service, spec: { prots: [port] } })).toEqual([
    '/spec/prots is not a field of IoK8sApiCoreV1Service',
    '/spec/prots/0/name is not a field of IoK8sApiCoreV1Service',
    '/spec/prots/0/port is not a field of IoK8sApiCoreV1Service',
  ])
})

function once<T>(work: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => (made ??= { value: work() }).value
}

function secretName(volume: { readonly [name: string]: unknown }): string[] {
  const parsed = z.object({ secret: z.looseObject({ secretName: z.string() }) }).safeParse(volume)
  return parsed.success ? [parsed.data.secret.secretName] : []
}
