// Every npm script starts here. Installs Node (on Linux), pnpm and the locked packages into the clone, then runs the command.
// Plain JavaScript without dependencies, for Node 18 and later.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runCheck, runFix } from './check.mjs'
import { exclusively } from './exclusively.mjs'
import { mergeReports } from './merge-reports.mjs'
import { ensurePrograms, findPrograms } from './programs.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..')
const tools = join(root, '.tools')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

/** Writes to stderr, because scripts may read the command's standard output. */
function say(line) {
  process.stderr.write(`postern: ${line}\n`)
}

class Refusal extends Error {}

function isAtLeast(version, minimum) {
  const [have, want] = [version, minimum].map((text) => text.split('.').map(Number))
  for (const index of [0, 1, 2]) {
    if (have[index] !== want[index]) return have[index] > want[index]
  }
  return true
}

// ---- installation

/** npm's settings for fetching packages. */
const kept =
  /^npm_config_(registry|userconfig|globalconfig|cache|ca|cafile|cert|key|strict_ssl|proxy|https_proxy|noproxy|fetch_.*|offline|prefer_offline|\/\/.*|@.*)$/i

function cleanEnvironment() {
  const entries = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name) || kept.test(name))
  return Object.fromEntries(entries)
}

/** The npm that runs this script, else the one on the PATH. */
function npm(args) {
  const cli = process.env.npm_execpath
  const [command, first] = cli && /npm-cli\.[cm]?js$/.test(cli) ? [process.execPath, [cli]] : ['npm', []]
  run(command, [...first, ...args], { cwd: tools, env: cleanEnvironment() })
}

/** Runs an installer and prints its output only if it fails. */
function run(command, args, options) {
  const result = spawnSync(command, args, { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8', ...options })
  if (result.error) throw new Refusal(`${command} could not be run: ${result.error.message}`)
  if (result.status === 0) return
  process.stderr.write(`${result.stdout}${result.stderr}`)
  throw new Refusal(`${command} ${args.join(' ')} failed (${result.signal ?? `exit code ${result.status}`})`)
}

/** Installs one npm package into its own folder below .tools. The folder appears by a rename, so it is always complete. */
function installTool(folder, specifier) {
  const unfinished = `${folder}.new-${process.pid}`
  rmSync(unfinished, { recursive: true, force: true })
  mkdirSync(unfinished, { recursive: true })
  try {
    npm([
      'install',
      `--prefix=${unfinished}`,
      '--no-save',
      '--no-package-lock',
      '--ignore-scripts',
      '--no-audit',
      '--no-fund',
      '--loglevel=error',
      specifier,
    ])
    rmSync(folder, { recursive: true, force: true })
    renameSync(unfinished, folder)
  } finally {
    rmSync(unfinished, { recursive: true, force: true })
  }
}

function nodePlan() {
  const { min, pin } = manifest.config.node
  if (isAtLeast(process.versions.node, min)) return { path: process.execPath }
  const isGlibc = process.platform === 'linux' && process.report.getReport().header.glibcVersionRuntime !== undefined
  if (!isGlibc || !['x64', 'arm64'].includes(process.arch)) {
    throw new Refusal(`Node ${min} or later is needed, but this is ${process.versions.node}. Install Node ${pin}.`)
  }
  const name = `node-linux-${process.arch}`
  const folder = join(tools, `node-${pin}`)
  return {
    path: join(folder, 'node_modules', name, 'bin', 'node'),
    install: () => {
      say(`this is Node ${process.versions.node}: fetching Node ${pin} into .tools (once)`)
      installTool(folder, `${name}@${pin}`)
    },
  }
}

function pnpmPlan() {
  const [name, version] = manifest.packageManager.split('@')
  const folder = join(tools, `${name}-${version}`)
  return {
    path: join(folder, 'node_modules', '.bin', name),
    install: () => {
      say(`fetching ${name} ${version} into .tools (once)`)
      installTool(folder, `${name}@${version}`)
    },
  }
}

/** A hash of everything that decides what is installed. */
function dependencyState(node) {
  const manifests = ['package.json', 'pnpm-lock.yaml', 'pnpm-workspace.yaml']
  manifests.push(join('test', 'package.json'), join('verification', 'package.json'))
  manifests.push(join('services', 'console', 'web', 'package.json'))
  for (const group of ['packages', 'services']) {
    for (const name of readdirSync(join(root, group))) {
      manifests.push(join(group, name, 'package.json'))
    }
  }
  const hash = createHash('sha256').update(`${node} ${process.platform} ${process.arch}\n`)
  // File systems list folders in any order.
  manifests.sort((one, other) => (one < other ? -1 : 1))
  for (const name of manifests) {
    const path = join(root, name)
    hash.update(`${name}\n`).update(existsSync(path) ? readFileSync(path) : '')
  }
  return hash.digest('hex')
}

// In node_modules, so that it is removed with the packages.
const stamp = join(root, 'node_modules', '.postern-installed')

function isInstalled(state) {
  return existsSync(stamp) && readFileSync(stamp, 'utf8') === state
}

function installPackages(pnpm, node, state) {
  say('installing the locked packages (once, and after a change of them)')
  const env = cleanEnvironment()
  // NODE_ENV=production would omit the compiler and test tools.
  delete env.NODE_ENV
  env.PATH = [dirname(node), dirname(pnpm), env.PATH].join(delimiter)
  run(pnpm, ['install', '--frozen-lockfile', '--config.confirmModulesPurge=false'], { cwd: root, env })
  writeFileSync(stamp, state)
}

/** Runs `work` while holding the lock of this clone. */
function alone(work) {
  mkdirSync(tools, { recursive: true })
  return exclusively(join(tools, 'lock'), work, say)
}

/** Installs what is missing of Node, pnpm and packages, and returns the Node to use. */
function prepare() {
  const node = nodePlan()
  const version = node.install ? manifest.config.node.pin : process.versions.node
  const isReady = () => existsSync(node.path) && isInstalled(dependencyState(version))
  if (isReady()) return node.path
  alone(() => {
    if (isReady()) return
    if (!existsSync(node.path)) node.install()
    const pnpm = pnpmPlan()
    if (!existsSync(pnpm.path)) pnpm.install()
    installPackages(pnpm.path, node.path, dependencyState(version))
  })
  return node.path
}

// ---- commands

/** The environment of a command, without npm's additions and with the clone's tools first on the PATH. */
function commandEnvironment(node) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)))
  env.PATH = [dirname(node), join(root, 'node_modules', '.bin'), env.PATH].join(delimiter)
  env.NODE_COMPILE_CACHE ??= join(tools, 'compile-cache')
  return env
}

/** Whether a signal has asked us to stop. */
let isStopped = false

/** Runs a program, forwards signals, and returns its exit code as a shell would. */
function follow(command, args, { env, cwd = root, leash = false }) {
  return new Promise((resolve, reject) => {
    // Descriptor 3 closes when this process ends, even by SIGKILL.
    const stdio = leash ? ['inherit', 'inherit', 'inherit', 'pipe'] : 'inherit'
    const child = spawn(command, args, { cwd, env: leash ? { ...env, POSTERN_PARENT_FD: '3' } : env, stdio })
    child.stdio[3]?.on('error', () => undefined)
    const stop = (signal) => {
      isStopped = true
      child.kill(signal)
    }
    const handlers = ['SIGINT', 'SIGTERM', 'SIGHUP'].map((signal) => [signal, () => stop(signal)])
    for (const [signal, handler] of handlers) process.on(signal, handler)
    // If npm is killed, a changed parent is the only sign.
    const parent = process.ppid
    const watch = setInterval(() => process.ppid === parent || stop('SIGTERM'), 1_000)
    if (process.env.npm_lifecycle_event === undefined) clearInterval(watch)
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      clearInterval(watch)
      for (const [name, handler] of handlers) process.off(name, handler)
      resolve(code ?? 128 + (constants.signals[signal] ?? 0))
    })
  })
}

const reports = join(root, '.test-reports')

/** Tests that keep all processors busy. They run last, one file at a time. */
const faults = 'test/fault'

/** Runs the checks and every test, or only the tests that the arguments select. Both write a report for CI. */
async function test(context, args) {
  rmSync(reports, { recursive: true, force: true })
  mkdirSync(reports, { recursive: true })
  if (args.length > 0) return await follow('vitest', ['run', ...reporting('vitest'), ...args], context)
  const checked = await runCheck({ ...context, report: join(reports, 'check.json'), boundaries: false })
  const tested = await follow('vitest', ['run', ...reporting('vitest'), '--exclude', `${faults}/**`], context)
  if (isStopped) return tested
  const withstood = await follow('vitest', ['run', ...reporting('faults'), '--maxWorkers=1', faults], context)
  mergeReports(reports, { from: 'faults', into: 'vitest' })
  return checked || tested || withstood
}

/** Writes reports for CI of tests and of errors outside tests. */
function reporting(name) {
  const errors = join(root, 'packages', 'local-stack', 'errors-reporter.mjs')
  const report = `--outputFile.json=${join(reports, `${name}.json`)}`
  return ['--reporter=default', '--reporter=json', `--reporter=${errors}`, report]
}

/** The long fault tests: single faults, then pairs. */
async function testFaults({ env, ...context }, args) {
  return await follow('vitest', ['run', 'test/fault/faults.test.ts', ...args], {
    ...context,
    env: { ...env, POSTERN_FAULTS: 'long' },
  })
}

/** Mutation tests of the code that decides about access. */
const testMutation = fromSource('verification/mutation/run.ts')

/** Half an hour of steady load, to find leaks. */
const testSoak = fromSource('verification/soak/run.ts')

/** Ten minutes of requests generated from the contracts. */
async function testFuzz({ env, ...context }, args) {
  return await follow('vitest', ['run', 'verification/fuzz/contract-fuzzing.test.ts', ...args], {
    ...context,
    env: { POSTERN_FUZZ_MINUTES: '10', ...env },
  })
}

/** Uploads of 2 GiB in every form and into both stores. The usual run has 96 and 256 MiB. */
async function testUpload({ env, ...context }, args) {
  return await follow('vitest', ['run', 'test/end-to-end/large-upload', ...args], {
    ...context,
    env: { POSTERN_TEST_UPLOAD_MIB: '2048', ...env },
  })
}

/** Backup and restore. Writes a report for CI. */
async function testRecovery({ env, ...context }, args) {
  return await follow('vitest', ['run', 'test/recovery', ...reporting('recovery'), ...args], {
    ...context,
    env: { ...env, POSTERN_RECOVERY: 'on' },
  })
}

/** Validates exports with NIST's schema and liboscal. Needs Maven and Java. */
async function testOscal({ env, ...context }, args) {
  return await follow('vitest', ['run', 'services/findings/test/oscal', ...args], {
    ...context,
    env: { ...env, POSTERN_OSCAL: 'on' },
  })
}

function fromSource(path) {
  return async ({ node, ...context }, args, options = {}) =>
    await follow(node, ['--conditions=@postern/source', join(root, path), ...args], { ...context, ...options })
}

/** Runs a bundled program, which starts in half the time. */
function fromProgram(name) {
  return async ({ node, ...context }, args, options = {}) =>
    await follow(node, [programs(node).pathOf(name), ...args], { ...context, ...options })
}

function programs(node) {
  const found = findPrograms()
  return found.isBuilt ? found : alone(() => ensurePrograms(node))
}

/** The packages that an installation runs, as pnpm lists them from the lock file. */
function inventory(args) {
  return async ({ env }, more) => {
    const { path, install } = pnpmPlan()
    if (!existsSync(path)) alone(install)
    return await follow(path, [...args, ...more], { cwd: root, env })
  }
}

/** The contents of the image, from deploy/Dockerfile. */
const installed = ['gateway', 'console', 'keys', 'findings', 'universe', 'evidence', 'sync', 'cli'].flatMap((name) => [
  '--filter-prod',
  `@postern/${name}...`,
])

const testContainers = fromSource('verification/containers/run.ts')
const start = fromProgram('start')
const postern = fromProgram('postern')

const commands = {
  start: (context, args) => start(context, args, { leash: true }),
  test,
  'test:faults': testFaults,
  'test:fuzz': testFuzz,
  'test:upload': testUpload,
  'test:oscal': testOscal,
  'test:mutation': testMutation,
  'test:soak': testSoak,
  check: (context) => runCheck({ ...context, boundaries: true }),
  fix: (context) => runFix(context),
  // Packages with hashes and licences, for audits.
  sbom: inventory([...installed, 'sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'application', '--prod']),
  licences: inventory([...installed, 'licenses', 'list', '--prod']),
  bench: fromSource('verification/bench/run.ts'),
  docs: fromSource('verification/documents/run.ts'),
  'test:recovery': testRecovery,
  'test:containers': (context, args) => testContainers(context, args),
  // The caller's folder, for relative paths in arguments.
  postern: (context, args) => postern(context, args, { cwd: process.env.INIT_CWD ?? process.cwd() }),
}

async function main([name, ...args]) {
  const command = Object.hasOwn(commands, name ?? '') ? commands[name] : undefined
  if (command === undefined) throw new Refusal(`Unknown command. Use one of ${Object.keys(commands).join(', ')}.`)
  const node = prepare()
  return await command({ root, node, env: commandEnvironment(node), follow }, args)
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof Refusal)) throw error
  say(error.message)
  process.exitCode = 1
}
