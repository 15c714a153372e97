import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { least, findShortage } from '../../verification/containers/machine-requirements.ts'

const root = join(import.meta.dirname, '..', '..')
let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ci-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const report = (passed: number, failed: number): string =>
  JSON.stringify({
    success: failed === 0,
    testResults: [
      {
        status: failed === 0 ? 'passed' : 'failed',
        assertionResults: [
          ...Array.from({ length: passed }, () => ({ status: 'passed' })),
          ...Array.from({ length: failed }, (_each, index) => ({
            status: 'failed',
            fullName: `promise ${index} is kept`,
          })),
        ],
      },
    ],
  })

/** Replaces commands: a shell script by npm's arguments. */
interface Commands {
  readonly containers?: string
  readonly recovery?: string
  /** What `npm test` does once its reports are written. */
  readonly test?: string
}

const write = (name: string, text: string): string => `echo '${text}' > .test-reports/${name}`

/** Runs `.ci/run` in its own folder with a fake npm. Returns its lines and exit code. */
function runCi(
  {
    containers = write('containers.json', report(5, 0)),
    recovery = write('recovery.json', report(2, 0)),
    test: last = 'true',
  }: Commands,
  setting = 'fair',
) {
  cpSync(join(root, '.ci'), join(folder, '.ci'), { recursive: true })
  const programs = join(folder, 'bin')
  mkdirSync(programs)
  const tests = [
    'mkdir -p .test-reports',
    write('check.json', JSON.stringify([{ ok: true }])),
    write('vitest.json', report(10, 0)),
    last,
  ].join('; ')
  const npm = `#!/bin/sh\ncase "$*" in\n  test) ${tests};;\n  'run test:recovery') ${recovery};;\n  *) echo "asked: $*"; echo "drawn: $POSTERN_SEED $POSTERN_FUZZ_SEED"; ${containers};;\nesac\n`
  writeFileSync(join(programs, 'npm'), npm)
  chmodSync(join(programs, 'npm'), 0o755)
  const { stdout, status } = spawnSync('sh', ['.ci/run'], {
    cwd: folder,
    encoding: 'utf8',
    env: {
      PATH: [programs, dirname(process.execPath), '/usr/bin', '/bin'].join(':'),
      ...(setting === '' ? {} : { POSTERN_CI_CONTAINERS: setting }),
    },
  })
  return { lines: stdout.trim().split('\n'), status }
}

/** The output of git in the folder of the test. */
function git(...args: readonly string[]): string {
  const author = ['-c', 'user.name=a', '-c', 'user.email=a@b.example']
  return spawnSync('git', [...author, ...args], { cwd: folder, encoding: 'utf8' }).stdout
}

describe('the closing line of CI', () => {
  test('counts the container tests', () => {
    const { lines, status } = runCi({ containers: write('containers.json', report(5, 0)) })
    expect(lines).toContain('asked: run test:containers -- --where-fair')
    expect([lines.at(-1), status]).toEqual(['18 passed, 0 failed', 0])
  })

  test('counts each failure of the container tests and fails', () => {
    const { lines, status } = runCi({ containers: `${write('containers.json', report(5, 2))}; exit 1` })
    expect([lines.at(-1), status]).toEqual(['18 passed, 2 failed', 1])
    const named = lines.filter((line) => line.startsWith('FAILED')).map((line) => line.split(' > ')[1])
    expect(named).toEqual(['promise 0 is kept', 'promise 1 is kept'])
  })

  test.each([
    ['ended without a report, as when an image cannot be built', 'exit 1'],
    ['was ended by the clock', 'exit 124'],
    ['said that all passed, and failed', `${write('containers.json', report(5, 0))}; exit 1`],
  ])('counts a failure if the container tests %s', (_what, containers) => {
    const { lines, status } = runCi({ containers })
    expect(lines.at(-1)).toMatch(/, 1 failed$/)
    expect(status).toBe(1)
  })

  test('derives random seeds from the commit, so that failures can be repeated', () => {
    git('init', '-q')
    git('commit', '-q', '--allow-empty', '-m', 'a')
    const drawn = Number.parseInt(git('rev-parse', 'HEAD').slice(0, 7), 16)
    const { lines } = runCi({ containers: write('containers.json', report(5, 0)) })
    expect(lines).toContain(`drawn: ${drawn} ${drawn}`)
  })

  test('omits steps that report themselves as skipped', () => {
    const { lines, status } = runCi({ containers: "echo 'SKIPPED containers: no engine'" })
    expect([lines.at(-1), status]).toEqual(['13 passed, 0 failed', 0])
  })

  test('runs container tests by default on a machine that is large enough', () => {
    const { lines, status } = runCi({ containers: write('containers.json', report(5, 0)) }, '')
    expect(lines).toContain('asked: run test:containers -- --where-fair')
    expect([lines.at(-1), status]).toEqual(['18 passed, 0 failed', 0])
  })

  test('prints that container tests are off, or runs them unconditionally if requested', () => {
    const off = runCi({ containers: 'exit 1' }, 'off')
    expect(off.lines.filter((line) => line.startsWith('SKIPPED'))).toHaveLength(1)
    expect([off.lines.at(-1), off.status]).toEqual(['13 passed, 0 failed', 0])
    rmSync(join(folder, 'bin'), { recursive: true })
    expect(runCi({ containers: 'exit 1' }, 'on').lines).toContain('asked: run test:containers --')
  })

  test('counts backup and restore even without a report', () => {
    const { lines, status } = runCi({ containers: 'true', recovery: 'exit 1' })
    expect([lines.at(-1), status]).toEqual(['11 passed, 1 failed', 1])
  })

  const noneFailed = 'and no test failed: an error outside every test'
  const errors = JSON.stringify([{ kind: 'Unhandled Rejection', text: 'Error: the peer has gone' }])
  test.each([
    ['npm test', { test: 'exit 3' }, `npm test ended with code 3 ${noneFailed}`],
    [
      'npm test, without a report',
      { test: 'rm .test-reports/vitest.json; exit 1' },
      'npm test ended with code 1 and left no report',
    ],
    ['npm test, without its checks', { test: 'rm .test-reports/check.json' }, 'npm test left no report of its checks'],
    [
      'npm test, with an error that is known',
      { test: `${write('vitest.errors.json', errors)}; exit 1` },
      'Unhandled Rejection outside every test',
    ],
    [
      'backup and restore',
      { recovery: `${write('recovery.json', report(2, 0))}; exit 1` },
      `npm run test:recovery ended with code 1 ${noneFailed}`,
    ],
    [
      'containers',
      { containers: `${write('containers.json', report(5, 0))}; exit 124` },
      `npm run test:containers ended with code 124 ${noneFailed}`,
    ],
    ['containers, without a test', { containers: write('containers.json', report(0, 0)) }, 'code 0 and ran no test'],
  ])('names a failure without a failed test: %s', (_what, commands, expected) => {
    const { lines, status } = runCi(commands)
    expect([lines.at(-1)?.split(', ')[1], status]).toEqual(['1 failed', 1])
    const named = lines.filter((line) => line.startsWith('FAILED '))
    expect(named).toEqual([expect.stringContaining(expected)])
    if (expected.startsWith('Unhandled')) expect(lines).toContain('    Error: the peer has gone')
  })
})

test('an error outside of tests is reported with the test that was running', () => {
  writeFileSync(
    join(folder, 'a.test.mjs'),
    `test('waits', async () => {
       void Promise.reject(new Error('nobody listens'))
       await new Promise(setImmediate)
     })`,
  )
  const reporter = join(root, 'packages', 'local-stack', 'errors-reporter.mjs')
  const { status } = spawnSync(
    process.execPath,
    [
      join(root, 'node_modules', 'vitest', 'vitest.mjs'),
      'run',
      '--globals',
      `--root=${folder}`,
      `--reporter=${reporter}`,
      `--outputFile.json=${join(folder, 'reports', 'report.json')}`,
    ],
    { cwd: folder, encoding: 'utf8', env: { PATH: process.env['PATH'] } },
  )
  expect(status).toBe(1)
  expect(JSON.parse(readFileSync(join(folder, 'reports', 'report.errors.json'), 'utf8'))).toEqual([
    { kind: 'Unhandled Rejection', text: expect.stringContaining('nobody listens'), during: 'waits' },
  ])
})

describe('a machine is large enough for the container tests', () => {
  const enough = {
    processors: least.processors,
    memoryBytes: least.memoryBytes,
    diskBytes: least.diskBytes,
    share: least.share,
  }

  test('if it has the required resources', () => expect(findShortage(enough)).toBeUndefined())

  test.each([
    ['too few processors', { processors: 1 }, 'there are 1 processors, and 2 are needed'],
    ['too little memory', { memoryBytes: 2 ** 31 }, '2.0 GiB of memory are free, and 4.0 GiB are needed'],
    ['no room', { diskBytes: 2 ** 30 }, / are free, and 8.0 GiB are needed$/],
    ['a host that takes half', { share: 0.5 }, "50 % of the processors' time is available, and 60 % are needed"],
  ])('and not with %s', (_what, change, reason) => expect(findShortage({ ...enough, ...change })).toMatch(reason))
})
