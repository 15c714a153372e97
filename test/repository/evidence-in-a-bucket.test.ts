import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { initSecrets } from '@postern/installation'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { z } from 'zod'
import { readConfig } from '../../services/evidence/src/config.ts'

const deploy = join(import.meta.dirname, '..', '..', 'deploy')
const secretsMount = '/etc/postern/secrets/'
const secrets = mkdtempSync(join(tmpdir(), 'bucket-'))
const ownSecrets = ['POSTERN_BLOB_S3_ACCESS_KEY_ID', 'POSTERN_BLOB_S3_SECRET_ACCESS_KEY']

beforeAll(async () => {
  const addresses = { postgres: 'postgres:5432', pooler: 'pgbouncer:6432', redis: 'redis:6379', database: 'postern' }
  await initSecrets(secrets, addresses)
  for (const name of ownSecrets) writeFileSync(join(secrets, 'evidence', name), 'of the site\n')
})
afterAll(() => rmSync(secrets, { recursive: true, force: true }))

const composeSchema = z.looseObject({
  services: z.looseObject({
    evidence: z.looseObject({
      environment: z.record(z.string(), z.string()),
      networks: z.array(z.string()).optional(),
      volumes: z.array(z.string()).optional(),
    }),
    store: z.looseObject({ profiles: z.array(z.string()).optional() }).optional(),
  }),
  networks: z.record(z.string(), z.object({ internal: z.boolean().optional() }).nullable()).optional(),
})
const deploymentSchema = z.looseObject({
  kind: z.literal('Deployment'),
  spec: z.looseObject({
    template: z.looseObject({
      spec: z.looseObject({
        containers: z.tuple([z.looseObject({ env: z.array(z.object({ name: z.string(), value: z.string() })) })]),
      }),
    }),
  }),
})

function readCompose(name: string) {
  return composeSchema.parse(parse(readFileSync(join(deploy, name), 'utf8'), { merge: true }))
}

function deploymentEnvironment(path: string): Record<string, string> {
  const documents = parseAllDocuments(readFileSync(join(deploy, 'kubernetes', path), 'utf8'))
  const found = documents.flatMap((document) => deploymentSchema.safeParse(document.toJS()).data ?? [])
  const env = found.flatMap(({ spec }) => spec.template.spec.containers[0].env)
  return Object.fromEntries(env.map(({ name, value }) => [name, value]))
}

/** What compose makes of `${NAME:-default}` where nobody sets NAME. */
const withDefaults = (value: string) => value.replaceAll(/\$\{\w+:-([^}]*)\}/g, '$1')

const environments = {
  'compose.s3.yaml': () => ({
    ...readCompose('compose.yaml').services.evidence.environment,
    ...readCompose('compose.s3.yaml').services.evidence.environment,
  }),
  'kubernetes/components/evidence-in-s3': () => ({
    ...deploymentEnvironment('base/evidence.yaml'),
    ...deploymentEnvironment('components/evidence-in-s3/evidence.yaml'),
  }),
} as const

/** The configuration that the evidence service makes of an environment, with the secrets of this run. */
function configOf(environment: Readonly<Record<string, string>>) {
  const env = Object.entries(environment).map(([key, value]) => [
    key,
    withDefaults(value).replace(secretsMount, `${secrets}/evidence/`),
  ])
  return readConfig(Object.fromEntries(env))
}

describe.each(Object.entries(environments))('%s', (_name, read) => {
  test('gives the evidence service a valid configuration with a bucket and without a directory', () => {
    expect(configOf(read()).store).toMatchObject({
      kind: 's3',
      bucket: 'postern-evidence',
      credentials: { accessKeyId: 'of the site', secretAccessKey: 'of the site' },
      spoolDirectory: expect.stringMatching(/^\/var\/lib\/postern\/(?:blobs|spool)$/),
    })
  })

  test('reads the key only from files', () => {
    const files = Object.entries(read()).filter(([, value]) => value.startsWith(secretsMount))
    expect(files.map(([, value]) => basename(value))).toEqual(expect.arrayContaining(ownSecrets))
    for (const [key] of Object.entries(read())) expect(ownSecrets).not.toContain(key)
  })
})

test('compose.s3.yaml gives only evidence access to the bucket and starts no store', () => {
  const { services, networks } = readCompose('compose.s3.yaml')
  expect(Object.keys(services)).toEqual(['evidence', 'store'])
  expect(services.store?.profiles).toEqual(['store'])
  expect(networks).toEqual({ bucket: null })
  const before = readCompose('compose.yaml').services.evidence.networks?.filter((name) => name !== 'store')
  expect(services.evidence.networks).toEqual([...(before ?? []), 'bucket'])
})

describe('the compose file without overlays', () => {
  const { evidence } = readCompose('compose.yaml').services
  const volume = 'evidence:/var/lib/postern/blobs'

  test('keeps evidence in the store, with an access key of its own', () => {
    const key = (name: string) => readFileSync(join(secrets, 'evidence', name), 'utf8').trim()
    const accessKeyId = key('POSTERN_STORE_ACCESS_KEY_ID')
    const secretAccessKey = key('POSTERN_STORE_SECRET_ACCESS_KEY')
    expect(configOf(evidence.environment).store).toMatchObject({
      kind: 's3',
      endpoint: 'http://store:8080',
      credentials: { accessKeyId, secretAccessKey },
    })
    expect(readFileSync(join(secrets, 'store/store-users'), 'utf8')).toBe(`${accessKeyId} ${secretAccessKey}\n`)
  })

  test('with compose.directory.yaml stores evidence on a volume, without an access key and a store', () => {
    expect(evidence.volumes).toContain(volume)
    const { services } = readCompose('compose.directory.yaml')
    expect(configOf({ ...evidence.environment, ...services.evidence.environment }).store).toEqual({
      kind: 'directory',
      path: '/var/lib/postern/blobs',
    })
    expect(services.store?.profiles).toEqual(['store'])
  })
})

test("the component's network policy adds one TLS connection to those of the base", () => {
  const policySchema = z.looseObject({
    metadata: z.looseObject({ name: z.literal('evidence') }),
    spec: z.looseObject({ egress: z.array(z.object({ to: z.array(z.unknown()), ports: z.array(z.unknown()) })) }),
  })
  const read = (path: string) =>
    parseAllDocuments(readFileSync(join(deploy, 'kubernetes', path), 'utf8')).flatMap(
      (document) => policySchema.safeParse(document.toJS()).data?.spec.egress ?? [],
    )
  const base = read('base/network-policies.yaml')
  expect(base.length).toBeGreaterThan(1)
  const [added, ...more] = read('components/evidence-in-s3/network-policy.yaml').slice(base.length)
  expect(read('components/evidence-in-s3/network-policy.yaml').slice(0, base.length)).toEqual(base)
  expect([added?.ports, more]).toEqual([[{ port: 443 }], []])
})

test('the reference explains every setting of the store', () => {
  const asked = new Set<string>()
  const env = new Proxy<Record<string, string>>({}, { get: (_target, key) => void asked.add(String(key)) })
  expect(() => readConfig(env)).toThrow('must be set')
  const names = [...asked].filter((name) => name.startsWith('POSTERN_BLOB_') && !name.endsWith('_FILE'))
  expect(names.length).toBeGreaterThan(8)
  const reference = readFileSync(join(deploy, '../docs/reference/settings.md'), 'utf8')
  for (const name of names) expect(reference).toContain(`\`${name}\``)
})
