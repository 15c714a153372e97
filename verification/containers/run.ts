// `npm run test:containers`. `--where-fair` also skips machines that are too small or too slow.
import { spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { measureMachine, findShortage } from './machine-requirements.ts'
import { composeUp } from './compose.ts'
import { openEngine } from './engine.ts'
import { buildImages, findBases } from './images.ts'
import { installationVariable } from '../../test/support/on-containers.ts'

const root = join(import.meta.dirname, '..', '..')
const say = (line: string): void => void process.stdout.write(`containers: ${line}\n`)

function skip(reason: string): number {
  process.stdout.write(`SKIPPED containers: ${reason}; the tests without containers decide alone\n`)
  return 0
}

const patienceMs = 15 * 60_000

async function inTime<T>(what: string, isBounded: boolean, work: Promise<T>): Promise<T | string> {
  if (!isBounded) return await work
  const late = `${what} not available within ${patienceMs / 60_000} minutes`
  return await Promise.race([work, delay(patienceMs, late, { ref: false })])
}

async function testContainers(isBounded: boolean, args: readonly string[]): Promise<number> {
  const unfair = isBounded ? findShortage(await measureMachine()) : undefined
  if (unfair !== undefined) return skip(unfair)
  const engine = await inTime('a Docker engine was', isBounded, openEngine(say))
  if (typeof engine === 'string') return skip(engine)
  try {
    const bases = await inTime('the base images were', isBounded, findBases(engine, say))
    if (typeof bases === 'string') return skip(bases)
    const images = await buildImages(engine, bases, say)
    const installation = await composeUp(engine, images)
    try {
      say('the installation is up')
      const state = join(installation.installation.home, 'installation.json')
      await writeFile(state, JSON.stringify(installation.installation), { mode: 0o600 })
      return await runVitest(args, {
        ...engine.env,
        [installationVariable]: state,
        POSTERN_TEST_UPLOAD_MIB: '64',
        // This image is not available everywhere.
        TESTCONTAINERS_RYUK_DISABLED: 'true',
      })
    } finally {
      await installation.down()
    }
  } finally {
    await engine.stop()
  }
}

async function runVitest(args: readonly string[], env: Readonly<Record<string, string>>): Promise<number> {
  const errors = `--reporter=${join(root, 'packages', 'local-stack', 'errors-reporter.mjs')}`
  const report = ['--reporter=default', '--reporter=json', errors, '--outputFile.json=.test-reports/containers.json']
  const child = spawn('vitest', ['run', '--config', 'verification/containers/vitest.config.ts', ...report, ...args], {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
  return await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => resolve(code ?? 1))
  })
}

const given = process.argv.slice(2)
if (given.includes('--help')) {
  process.stdout.write(`Usage: npm run test:containers -- [options] [tests…]
  --where-fair  skip machines that are too small or too slow
Tests and other options, such as drills -t findings, are for Vitest.
`)
  process.exit(0)
}
process.exitCode = await testContainers(
  given.includes('--where-fair'),
  given.filter((each) => each !== '--where-fair'),
)
// Work beyond its time limit may never end.
process.exit()
