import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { initSecrets } from '@postern/installation'
import { nodeFlagsOf } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import * as console from '../../services/console/src/config.ts'
import * as evidence from '../../services/evidence/src/config.ts'
import * as findings from '../../services/findings/src/config.ts'
import * as gateway from '../../services/gateway/src/config.ts'
import * as keys from '../../services/keys/src/config.ts'
import * as sync from '../../services/sync/src/config.ts'
import * as universe from '../../services/universe/src/config.ts'
import { idleConnections } from '../../packages/service-client/src/connection.ts'

const services = { gateway, console, keys, findings, universe, evidence, sync } as const
const serviceNames = ['gateway', 'console', 'keys', 'findings', 'universe', 'evidence', 'sync'] as const
const deploy = join(import.meta.dirname, '..', '..', 'deploy')

const serviceSchema = z.looseObject({
  command: z.array(z.string()).optional(),
  environment: z.record(z.string(), z.string()).default({}),
  networks: z.array(z.string()),
  volumes: z.array(z.string()).default([]),
  ports: z.array(z.string()).default([]),
  read_only: z.boolean().default(false),
  cap_drop: z.array(z.string()).default([]),
  security_opt: z.array(z.string()).default([]),
  user: z.string().optional(),
  depends_on: z.record(z.string(), z.object({ condition: z.string() })).default({}),
})
const compose = z
  .looseObject({
    services: z.record(z.string(), serviceSchema),
    networks: z.record(z.string(), z.object({ internal: z.boolean().optional() }).nullable()),
  })
  .parse(parse(readFileSync(join(deploy, 'compose.yaml'), 'utf8'), { merge: true }))
const all = Object.entries(compose.services)

const secrets = mkdtempSync(join(tmpdir(), 'compose-'))
beforeAll(async () => {
  const addresses = { postgres: 'postgres:5432', pooler: 'pgbouncer:6432', redis: 'redis:6379', database: 'postern' }
  await initSecrets(secrets, addresses)
})
afterAll(() => rmSync(secrets, { recursive: true, force: true }))

function find(name: string) {
  const service = compose.services[name]
  if (service === undefined) throw new Error(`no service is called ${name}`)
  return service
}

function environmentOf(name: string): Record<string, string> {
  const entries = Object.entries(find(name).environment)
  return Object.fromEntries(
    entries.map(([key, value]) => [key, fill(value).replace('/etc/postern/secrets', `${secrets}/${name}`)]),
  )
}

const given: Readonly<Record<string, string>> = { POSTERN_OIDC_ISSUER: 'https://sign-in.example' }

/** What Docker makes of a value: variables by what is given, else by their default. */
function fill(value: string, variables = given): string {
  return value.replaceAll(
    /\$\{(\w+):-([^}]*)\}/g,
    (_all, name: string, fallback: string) => variables[name] ?? fallback,
  )
}

/** Hosts that a service is configured to reach, by its environment and its secrets. */
function destinations(name: string): string[] {
  // Names that the console shows, and does not reach.
  const { POSTERN_CONSOLE_URL: _own, POSTERN_API_URL: _shown, ...environment } = environmentOf(name)
  const texts = Object.entries(environment).map(([key, value]) =>
    key.startsWith('POSTERN_') && key.endsWith('_FILE') ? readFileSync(value, 'utf8').trim() : value,
  )
  return texts.flatMap((text) => (text.includes('://') ? [new URL(text).hostname] : []))
}

function share(one: string, other: string): boolean {
  return find(one).networks.some((network) => find(other).networks.includes(network))
}

describe('the compose file', () => {
  test('publishes only gateway and console, and by default only on this machine', () => {
    expect(all.flatMap(([name, { ports }]) => ports.map((port) => `${name} ${port}`))).toEqual([
      'gateway ${POSTERN_BIND:-127.0.0.1}:${POSTERN_PORT:-8080}:8080',
      'console ${POSTERN_BIND:-127.0.0.1}:${POSTERN_CONSOLE_PORT:-8090}:8080',
    ])
    const open = Object.entries(compose.networks).flatMap(([name, network]) => (network?.internal ? [] : [name]))
    expect(open).toEqual(['edge', 'sources'])
    // Whoever reads sources reaches them, and nobody else.
    expect(all.flatMap(([name, { networks }]) => (networks.includes('sources') ? [name] : []))).toEqual(['sync'])
    expect(all.flatMap(([name, { networks }]) => (networks.includes('edge') ? [name] : []))).toEqual([
      'gateway',
      'console',
    ])
  })

  test.each(all)('gives %s no more than it needs', (name, service) => {
    expect(service.security_opt).toEqual(['no-new-privileges:true'])
    expect(service['privileged']).toBeUndefined()
    // The PostgreSQL image starts as root to own its folder, and continues as another user.
    if (name === 'postgres') return
    expect(service.user).toBe('${POSTERN_UID:-10001}:${POSTERN_GID:-10001}')
    expect(service.read_only).toBe(true)
    expect(service.cap_drop).toEqual(['ALL'])
  })

  test.each(all)('gives %s only its own secrets', (name, { volumes }) => {
    const mounted = volumes.filter((volume) => volume.includes('POSTERN_SECRETS'))
    expect(mounted).toEqual([`\${POSTERN_SECRETS:-./secrets}/${name}:/etc/postern/secrets:ro`])
  })

  test.each(serviceNames)('passes every setting of an installation to %s, or the documents name it', (name) => {
    const asked = new Set<string>()
    const env = new Proxy<Record<string, string>>({}, { get: (_target, key) => void asked.add(String(key)) })
    expect(() => services[name].readConfig(env)).toThrow('must be set')
    const reference = readFileSync(join(deploy, '../docs/reference/settings.md'), 'utf8')
    const { environment } = find(name)
    // It would only warn of one that it does not know.
    expect(Object.keys(environment).filter((key) => key.startsWith('POSTERN_') && !asked.has(key))).toEqual([])
    const unnamed = [...asked]
      .filter((setting) => !setting.endsWith('_FILE'))
      .filter((setting) => !(setting in environment) && !(`${setting}_FILE` in environment))
      .filter((setting) => !reference.includes(`\`${setting}\``))
    expect(asked.size).toBeGreaterThan(5)
    expect(unnamed).toEqual([])
  })

  test.each(serviceNames)('gives %s a valid configuration', (name) => {
    expect(services[name].readConfig(environmentOf(name))).toMatchObject({ host: '0.0.0.0', port: 8080 })
    expect(find(name).command).toEqual([...nodeFlagsOf(name), `services/${name}/dist/main.js`])
  })

  test('gives gateway and console a valid configuration without an OpenID provider', () => {
    expect(fill(find('console').environment['POSTERN_OIDC_ISSUER'] ?? 'none', {})).toBe('')
    expect(console.readConfig({ ...environmentOf('console'), POSTERN_OIDC_ISSUER: '' }).providers).toEqual([])
    expect(gateway.readConfig({ ...environmentOf('gateway'), POSTERN_OIDC_ISSUER: '' })).toMatchObject({
      host: '0.0.0.0',
    })
  })

  test.each(serviceNames)('lets %s drain for longer than its idle connections stay open', (name) => {
    const { drainMs } = services[name].readConfig(environmentOf(name))
    // undici closes them up to a second later than asked.
    expect(drainMs).toBeGreaterThan(idleConnections.keepAliveMaxTimeout + 1000)
  })

  test('lets every service reach its configured targets', () => {
    const pairs = all.flatMap(([name]) => destinations(name).map((destination) => [name, destination] as const))
    expect(pairs.length).toBeGreaterThan(15)
    const [outside, inside] = [true, false].map((is) => pairs.filter(([, to]) => (to === 'sign-in.example') === is))
    expect(inside?.filter(([from, to]) => !share(from, to))).toEqual([])
    // People's provider is outside; who asks it has a way out.
    expect(outside?.map(([from]) => from)).toEqual(['gateway', 'console'])
    expect(outside?.filter(([from]) => !find(from).networks.includes('edge'))).toEqual([])
    expect(share('pgbouncer', 'postgres')).toBe(true)
  })

  test('separates gateway and console from the database, and gives only three services access to Redis', () => {
    expect([share('gateway', 'pgbouncer'), share('console', 'pgbouncer')]).toEqual([false, false])
    expect(all.flatMap(([name]) => (share(name, 'postgres') ? [name] : [])).toSorted()).toEqual([
      'migrate',
      'pgbouncer',
      'postgres',
    ])
    expect(all.flatMap(([name]) => (share(name, 'redis') ? [name] : [])).toSorted()).toEqual([
      'console',
      'gateway',
      'keys',
      'redis',
    ])
  })

  test('gives only evidence access to the store, in a separate network', () => {
    expect(all.flatMap(([name]) => (share(name, 'store') ? [name] : [])).toSorted()).toEqual(['evidence', 'store'])
    expect(find('store').networks).toEqual(['store'])
    expect(destinations('evidence')).toContain('store')
    expect(find('store').volumes).toContain('store:/var/lib/postern/store')
    expect(find('store')['healthcheck']).toHaveProperty('test')
    const dockerfile = readFileSync(join(deploy, 'store/Dockerfile'), 'utf8')
    const { bucket } = z.looseObject({ bucket: z.string() }).parse(evidence.readConfig(environmentOf('evidence')).store)
    expect(dockerfile).toContain(`"--bucket", "${bucket}"`)
    // Docker would make a folder that is not there root's own.
    expect(dockerfile).toContain('chmod 1777 /var/lib/postern/store')
  })

  test('starts services after the migrations and their dependencies, and the gateway after the services', () => {
    expect(find('console').depends_on['gateway']?.condition).toBe('service_healthy')
    const waited = ['pgbouncer', 'redis'] as const
    expect(all.flatMap(([name, service]) => (service['profiles'] === undefined ? [] : [name]))).toEqual(['operator'])
    for (const [name] of all.filter(([, service]) => service['profiles'] === undefined)) {
      for (const other of waited.filter((each) => destinations(name).includes(each))) {
        expect(find(name).depends_on[other]?.condition, `${name} ${other}`).toBe('service_healthy')
      }
    }
    for (const name of [...waited, 'postgres']) expect(find(name)['healthcheck'], name).toHaveProperty('test')
    for (const name of serviceNames.filter((each) => each !== 'gateway' && each !== 'console')) {
      expect(find(name).depends_on['migrate']?.condition).toBe('service_completed_successfully')
      expect(find('gateway').depends_on[name]?.condition).toBe('service_healthy')
    }
  })
})

test('with compose.tls.yaml, PostgreSQL, PgBouncer and Redis require TLS and every client verifies their certificates', () => {
  const { services: secured } = z
    .looseObject({ services: z.record(z.string(), z.looseObject({})) })
    .parse(parse(readFileSync(join(deploy, 'compose.tls.yaml'), 'utf8'), { merge: true }))
  const asking = all.flatMap(([name]) =>
    name === 'migrate' || destinations(name).some((to) => to === 'pgbouncer' || to === 'redis') ? [name] : [],
  )
  expect(Object.keys(secured).toSorted()).toEqual([...asking, 'postgres', 'pgbouncer', 'redis'].toSorted())
  for (const name of asking) {
    expect(secured[name]?.['environment'], name).toEqual({ NODE_EXTRA_CA_CERTS: '/etc/postern/trust/ca.crt' })
    expect(secured[name]?.['volumes'], name).toEqual(['${POSTERN_TLS:-./tls}/ca.crt:/etc/postern/trust/ca.crt:ro'])
  }
  expect(secured['postgres']?.['command']).toContain('ssl=on')
  expect(JSON.stringify(secured['redis']?.['command'])).toContain('"--port","0","--tls-port","6379"')
  const site = join(deploy, 'pgbouncer/tls')
  const settings = readFileSync(join(site, 'tls.ini'), 'utf8')
  expect(settings).toMatch(/^client_tls_sslmode = require$/m)
  expect(settings).toMatch(/^server_tls_sslmode = verify-full$/m)
  // A section in what is included sets what stands above it back to its defaults.
  expect(settings + readFileSync(join(site, 'database.ini'), 'utf8')).not.toMatch(/^\[/m)
})

test('with compose.sign-in.yaml, gateway and console read the same file of providers', () => {
  const { services: changed } = z
    .looseObject({ services: z.record(z.string(), serviceSchema.partial()) })
    .parse(parse(readFileSync(join(deploy, 'compose.sign-in.yaml'), 'utf8')))
  expect(Object.keys(changed)).toEqual(['gateway', 'console'])
  for (const [name, { environment, volumes }] of Object.entries(changed)) {
    expect(environment).toEqual({
      POSTERN_SIGN_IN: '',
      POSTERN_OIDC_ISSUER: '',
      POSTERN_SIGN_IN_FILE: '/etc/postern/sign-in.yaml',
    })
    expect(volumes?.[0]).toMatch(/^\$\{POSTERN_SIGN_IN_PATH:\?[^}]+\}:\/etc\/postern\/sign-in\.yaml:ro$/)
    // The overlay only replaces what the service has.
    expect(find(name).environment).toMatchObject({
      POSTERN_SIGN_IN: expect.anything(),
      POSTERN_OIDC_ISSUER: expect.anything(),
    })
  }
})

test('the build context contains every file of this folder that the image runs', () => {
  const dockerfile = readFileSync(join(deploy, 'Dockerfile'), 'utf8')
  const programs = [...dockerfile.matchAll(/"(deploy\/[\w.-]+)"/g)].map(([, path]) => `!${path}`)
  expect(programs).toHaveLength(2)
  const sent = readFileSync(join(deploy, '..', '.dockerignore'), 'utf8').split('\n')
  expect(sent).toEqual(expect.arrayContaining(programs))
})

test('the image contains the guides that the gateway serves', () => {
  expect(readFileSync(join(deploy, 'Dockerfile'), 'utf8')).toContain('\nCOPY docs/guides ./docs/guides\n')
  expect(readFileSync(join(deploy, '..', '.dockerignore'), 'utf8')).toContain('\n!docs/guides\n')
})

test("the image is built with the repository's Node and pnpm, and contains every service", () => {
  const dockerfile = readFileSync(join(deploy, 'Dockerfile'), 'utf8')
  const manifest = z
    .looseObject({ packageManager: z.string(), config: z.object({ node: z.object({ pin: z.string() }) }) })
    .parse(JSON.parse(readFileSync(join(deploy, '..', 'package.json'), 'utf8')))
  expect(dockerfile).toContain(`ARG NODE_IMAGE=node:${manifest.config.node.pin}-`)
  expect(dockerfile).toContain(`ARG PNPM_VERSION=${manifest.packageManager.replace('pnpm@', '')}\n`)
  for (const name of [...serviceNames, 'cli']) expect(dockerfile).toContain(`--filter-prod @postern/${name}...`)
})
