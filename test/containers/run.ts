// `npm run test:containers`: the image and the compose file on a real Docker engine. Says in one line when none can be had.
import { spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { composeUp } from './compose.ts'
import { openEngine } from './engine.ts'
import { buildImages } from './images.ts'
import { installationVariable } from './installation.ts'

const root = join(import.meta.dirname, '..', '..')
const say = (line: string): void => void process.stdout.write(`containers: ${line}\n`)

async function testContainers(args: readonly string[]): Promise<number> {
  const engine = await openEngine(say)
  if (typeof engine === 'string') {
    process.stdout.write(`SKIPPED containers: ${engine}\n`)
    return 0
  }
  try {
    const images = await buildImages(engine, say)
    if (typeof images === 'string') {
      process.stdout.write(`SKIPPED containers: ${images}\n`)
      return 0
    }
    const installation = await composeUp(engine, images)
    try {
      say('the installation is up')
      const state = join(installation.installation.home, 'installation.json')
      await writeFile(state, JSON.stringify(installation.installation), { mode: 0o600 })
      return await runVitest(args, {
        ...engine.env,
        [installationVariable]: state,
        // Its image cannot be had everywhere. What the tests start ends with them, and with the engine at the latest.
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
  // A report for CI, beside that of the tests without containers.
  const report = ['--reporter=default', '--reporter=json', '--outputFile.json=.test-reports/containers.json']
  const child = spawn('vitest', ['run', '--config', 'test/containers/vitest.config.ts', ...report, ...args], {
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

process.exitCode = await testContainers(process.argv.slice(2))
