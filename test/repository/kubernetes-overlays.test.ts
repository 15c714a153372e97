import { cpSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findKubectl } from '@postern/local-stack/testing'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { readConfig as readConsoleConfig } from '../../services/console/src/config.ts'
import { readConfig as readGatewayConfig } from '../../services/gateway/src/config.ts'
import { base, findWorkload, provider, useKubernetes } from '../support/kubernetes-objects.ts'
import { arrowsOf, renderOverlay, workloadsOf } from '../support/manifests.ts'

const kubectl = await findKubectl()
if (typeof kubectl === 'string') process.stdout.write(`overlays are not rendered: ${kubectl}\n`)
const program = typeof kubectl === 'string' ? '' : kubectl.command

const { folder, secrets, environmentOf, configuredArrows, describeObjects } = useKubernetes()

describe.skipIf(program === '')('the development overlay', () => {
  const render = once(() => renderOverlay(program, join(folder, 'kubernetes/overlays/development')))
  describeObjects(render)

  test('provides the secrets that each component mounts', () => {
    const names = render().flatMap(({ kind, metadata }) => (kind === 'Secret' ? [metadata.name] : []))
    const mounted = workloadsOf(render()).flatMap(({ pod }) => pod.volumes.flatMap((v) => secretName(v)))
    expect(mounted.toSorted()).toEqual(names.toSorted())
  })

  test('changes no connection', () => {
    expect(arrowsOf(render(), 'egress')).toEqual(arrowsOf(base, 'egress'))
    expect(arrowsOf(render(), 'ingress')).toEqual(arrowsOf(base, 'ingress'))
  })
})

describe.skipIf(program === '')('the production overlay', () => {
  const render = once(() => renderOverlay(program, join(folder, 'kubernetes/overlays/production')))
  describeObjects(render)

  test('contains no secrets', () => {
    expect(render().filter(({ kind }) => kind === 'Secret')).toEqual([])
  })

  test('moves the connections to PostgreSQL and Redis out of the cluster, adds those to the OpenID provider, and changes no others', () => {
    const outside = arrowsOf(render(), 'egress').map((arrow) =>
      arrow.replace(/192\.0\.2\.\d+\/\d+:5432$/, 'postgres:5432').replace(/192\.0\.2\.\d+\/\d+:6379$/, 'redis:6379'),
    )
    const people = configuredArrows(render()).filter((arrow) => arrow.endsWith(provider))
    expect(people).toEqual([`console > ${provider}`, `gateway > ${provider}`])
    expect(outside.toSorted()).toEqual([...arrowsOf(base, 'egress'), ...people].toSorted())
    expect(arrowsOf(render(), 'egress')).not.toEqual(arrowsOf(base, 'egress'))
    expect(arrowsOf(render(), 'ingress')).toEqual(arrowsOf(base, 'ingress'))
  })

  test('routes only to gateway and console, with time limits for large bodies', () => {
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

  test("lets PgBouncer and the migrations verify PostgreSQL with the site's authority", () => {
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

describe.skipIf(program === '')(
  'the production overlay with a bucket, sources, e-mail, traces and an authority of its own',
  () => {
    const render = once(() => {
      const own = join(folder, 'kubernetes/overlays/with-components')
      cpSync(join(folder, 'kubernetes/overlays/production'), own, { recursive: true })
      const path = join(own, 'kustomization.yaml')
      const components = ['evidence-in-s3', 'sources-of-connectors', 'e-mail', 'traces', 'own-authority']
        .map((name) => `  - ../../components/${name}`)
        .join('\n')
      const chosen = readFileSync(path, 'utf8').replace('  - ../../components/evidence-on-shared-volume', components)
      writeFileSync(path, chosen)
      for (const name of ['POSTERN_BLOB_S3_ACCESS_KEY_ID', 'POSTERN_BLOB_S3_SECRET_ACCESS_KEY']) {
        writeFileSync(join(secrets, 'evidence', name), 'given by who keeps the bucket')
      }
      writeFileSync(join(secrets, 'sync', 'POSTERN_SMTP_URL'), 'smtp://postern:given@mail.example:587')
      return renderOverlay(program, own)
    })
    describeObjects(render)

    test('has every component except replaced ones', () => {
      const there = readdirSync(join(folder, 'kubernetes/components'))
      const chosen = readFileSync(join(folder, 'kubernetes/overlays/with-components/kustomization.yaml'), 'utf8')
      expect(render().length).toBeGreaterThan(20)
      expect(there.filter((name) => !chosen.includes(`components/${name}\n`))).toEqual([
        'evidence-on-shared-volume',
        'sign-in-file',
      ])
    })

    test('adds only the connections of its components', () => {
      const production = renderOverlay(program, join(folder, 'kubernetes/overlays/production'))
      const senders = ['gateway', 'keys', 'findings', 'universe', 'evidence', 'sync']
      const added = [
        'evidence > 192.0.2.48/28:443',
        ...[443, 636, 5432, 3306].map((port) => `sync > 192.0.2.64/28:${port}`),
        'sync > 192.0.2.80/28:587',
        ...senders.map((name) => `${name} > namespace:monitoring:4318`),
      ]
      expect(arrowsOf(render(), 'egress')).toEqual([...arrowsOf(production, 'egress'), ...added].toSorted())
      expect(arrowsOf(render(), 'ingress')).toEqual(arrowsOf(production, 'ingress'))
    })

    test('exports traces of every service and stores no evidence on a volume', () => {
      for (const name of ['gateway', 'keys', 'findings', 'universe', 'evidence', 'sync']) {
        expect(environmentOf(findWorkload(render(), name))['POSTERN_OTLP_URL'], name).toMatch(/^http/)
      }
      expect(render().filter(({ kind }) => kind === 'PersistentVolumeClaim')).toEqual([])
      const { volumes } = findWorkload(render(), 'evidence').pod
      expect(volumes.map(({ name }) => name).toSorted()).toEqual(['authority', 'secrets', 'spool'])
      // Parts of an upload on their way to the bucket.
      expect(volumes.find(({ name }) => name === 'spool')).toEqual({ name: 'spool', emptyDir: { sizeLimit: '4Gi' } })
    })

    test("lets every client verify the site's servers with the site's authority", () => {
      for (const name of ['gateway', 'keys', 'evidence', 'sync', 'console']) {
        const { pod } = findWorkload(render(), name)
        expect(pod.volumes, name).toContainEqual({ name: 'authority', configMap: { name: 'postern-authority' } })
        const mount = { name: 'authority', mountPath: '/etc/postern/authority', readOnly: true }
        expect(pod.containers[0]?.['volumeMounts'], name).toContainEqual(mount)
        const trusted = environmentOf(findWorkload(render(), name))['NODE_EXTRA_CA_CERTS']
        expect(trusted, name).toBe('/etc/postern/authority/ca.crt')
      }
    })
  },
)

function once<T>(work: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => (made ??= { value: work() }).value
}

function secretName(volume: { readonly [name: string]: unknown }): string[] {
  const parsed = z.object({ secret: z.looseObject({ secretName: z.string() }) }).safeParse(volume)
  return parsed.success ? [parsed.data.secret.secretName] : []
}

describe.skipIf(program === '')('the production overlay with a file of sign-in providers', () => {
  test('lets gateway and console read it, with the issuer left out of people.yaml', () => {
    const own = join(folder, 'kubernetes/overlays/with-sign-in-file')
    cpSync(join(folder, 'kubernetes/overlays/production'), own, { recursive: true })
    const change = (name: string, from: string | RegExp, to: string) => {
      const before = readFileSync(join(own, name), 'utf8')
      const after = before.replace(from, to)
      expect(after).not.toBe(before)
      writeFileSync(join(own, name), after)
    }
    const component = '  - ../../components/evidence-on-shared-volume'
    change('kustomization.yaml', component, `${component}\n  - ../../components/sign-in-file`)
    change('people.yaml', /^.*POSTERN_OIDC_ISSUER.*\n/gm, '')
    const objects = renderOverlay(program, own)
    const file = join(folder, 'sign-in.yaml')
    writeFileSync(file, 'providers: [{ name: Staff, issuer: https://sso.example }]')
    for (const [name, readConfig] of [
      ['gateway', readGatewayConfig],
      ['console', readConsoleConfig],
    ] as const) {
      const found = findWorkload(objects, name)
      expect(found.pod.volumes, name).toContainEqual({ name: 'sign-in', configMap: { name: 'postern-sign-in' } })
      const mount = { name: 'sign-in', mountPath: '/etc/postern/sign-in', readOnly: true }
      expect(found.pod.containers[0]?.['volumeMounts'], name).toContainEqual(mount)
      const env = environmentOf(found)
      expect(env['POSTERN_SIGN_IN_FILE'], name).toBe('/etc/postern/sign-in/sign-in.yaml')
      expect(readConfig({ ...env, POSTERN_SIGN_IN_FILE: file }).providers, name).toHaveLength(1)
    }
  })
})
