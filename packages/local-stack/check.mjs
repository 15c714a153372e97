// `npm run check` and `npm run fix`.
import { spawn } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const boundaries = join('test', 'repository', 'boundaries.test.ts')

/** The checks of a row run one after the other, beside those of the other row. */
const checks = [
  [
    // Several checkers check shared types once each: twice the processor time.
    { name: 'types', command: ['tsc', '-b', '--checkers', '1'] },
    { name: 'lint', command: ['oxlint', '--type-aware', '--deny-warnings'] },
  ],
  [
    { name: 'format', command: ['oxfmt', '--check'] },
    { name: 'unused code and dependencies', command: ['knip'] },
    { name: 'spelling', command: ['cspell', '--no-progress', '--no-summary'] },
  ],
]

/** `npm test` runs this test too. */
const boundaryCheck = {
  name: 'boundaries',
  command: ['vitest', 'run', boundaries],
  env: { POSTERN_TEST_SERVERS: 'none' },
}

export async function runCheck({ root, env, report, boundaries: withBoundaries }) {
  const runRow = async (row) => {
    const results = []
    for (const check of row) {
      const started = performance.now()
      const { ok, output } = await capture(check.command, { cwd: root, env: { ...env, ...check.env } })
      const seconds = ((performance.now() - started) / 1000).toFixed(1)
      process.stdout.write(`${ok ? 'ok    ' : 'FAILED'} ${check.name} (${seconds} s)\n${ok ? '' : `${output}\n`}`)
      results.push({ name: check.name, ok })
    }
    return results
  }
  const results = (await Promise.all(checks.map(runRow))).flat()
  if (withBoundaries) results.push(...(await runRow([boundaryCheck])))
  if (report !== undefined) writeFileSync(report, `${JSON.stringify(results, undefined, 2)}\n`)
  return results.every(({ ok }) => ok) ? 0 : 1
}

export async function runFix({ root, env, follow }) {
  const formatted = await follow('oxfmt', [], { cwd: root, env })
  const linted = await follow('oxlint', ['--type-aware', '--fix'], { cwd: root, env })
  return formatted || linted
}

function capture([command, ...args], options) {
  return new Promise((resolve) => {
    if (!existsSync(join(options.cwd, 'node_modules', '.bin', command))) {
      resolve({ ok: false, output: `${command} is not installed` })
      return
    }
    const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
    const chunks = []
    child.stdout.on('data', (chunk) => chunks.push(chunk))
    child.stderr.on('data', (chunk) => chunks.push(chunk))
    child.once('error', (error) => resolve({ ok: false, output: error.message }))
    child.once('close', (code) => resolve({ ok: code === 0, output: Buffer.concat(chunks).toString('utf8').trim() }))
  })
}
