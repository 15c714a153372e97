import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { initSecrets } from '@postern/installation'
import { afterAll, beforeAll, expect, test } from 'vitest'
import * as console from '../../services/console/src/config.ts'
import * as evidence from '../../services/evidence/src/config.ts'
import * as findings from '../../services/findings/src/config.ts'
import * as gateway from '../../services/gateway/src/config.ts'
import * as keys from '../../services/keys/src/config.ts'
import * as sync from '../../services/sync/src/config.ts'
import * as universe from '../../services/universe/src/config.ts'
import { idleConnections } from '../../packages/service-client/src/connection.ts'
import { kubernetesFaults } from './kubernetes-schema.ts'
import { type Manifest, type Workload, arrowsOf, networkPoliciesOf, readResources, workloadsOf } from './manifests.ts'

const deploy = join(import.meta.dirname, '..', '..', 'deploy')
const services = { gateway, console, keys, findings, universe, evidence, sync } as const
type ServiceName = keyof typeof services
export const serviceNames = [
  'gateway',
  'console',
  'keys',
  'findings',
  'universe',
  'evidence',
  'sync',
] as const satisfies ServiceName[]

const secretsMount = '/etc/postern/secrets/'
/** The objects of the base, as they stand in the repository. */
export const base = readResources(join(deploy, 'kubernetes/base'))

/** The OpenID provider is outside every cluster: policies know its network, the configuration its name. */
export const provider = '203.0.113.0/24:443'

/** Fails where there is none of that name. */
export function findWorkload(manifests: readonly Manifest[], name: string): Workload {
  const found = workloadsOf(manifests).find((each) => each.name === name)
  if (found === undefined) throw new Error(`no workload is called ${name}`)
  return found
}

/** The variables that a service asks for, or Node.js itself. */
function knownVariables(name: ServiceName): Set<string> {
  const asked = new Set(['NODE_EXTRA_CA_CERTS'])
  const env = new Proxy<Record<string, string>>({}, { get: (_target, key) => void asked.add(String(key)) })
  expect(() => services[name].readConfig(env)).toThrow('must be set')
  return asked
}

/**
 * Gives a test file a copy of deploy/kubernetes with secrets of its own, and what is read from it: removed when the file is over.
 * To be called by each.
 */
export function useKubernetes() {
  const folder = mkdtempSync(join(tmpdir(), 'kubernetes-'))
  const secrets = join(folder, 'kubernetes/overlays/development/secrets')

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

  /** The arrows that there must be: where each process is configured to connect to. */
  function configuredArrows(manifests = base): string[] {
    return workloadsOf(manifests)
      .flatMap((each) => destinations(each).map((destination) => `${each.name} > ${destination}`))
      .toSorted()
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
      const names = workloadsOf(read()).flatMap(({ pod }) =>
        pod.containers.flatMap(({ env }) => env.map((e) => e.name)),
      )
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

  return { folder, secrets, environmentOf, configuredArrows, describeObjects }
}
