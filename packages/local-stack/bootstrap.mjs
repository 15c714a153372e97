// What every npm script calls first. Plain JavaScript for Node 18 and later without any dependency: it brings a new
// enough Node (Linux), pnpm and the locked packages into the clone, and then runs the command with them.
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

/** To stderr: standard output belongs to the command, which may be read by a script. */
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

/** Settings that say where and how packages are fetched; all else that npm hands to its scripts concerns this run. */
const kept =
  /^npm_config_(registry|userconfig|globalconfig|cache|ca|cafile|cert|key|strict_ssl|proxy|https_proxy|noproxy|fetch_.*|offline|prefer_offline|\/\/.*|@.*)$/i

function cleanEnvironment() {
  const entries = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name) || kept.test(name))
  return Object.fromEntries(entries)
}

/** npm itself: the one that runs us where there is one, else the one on the PATH. */
function npm(args) {
  const cli = process.env.npm_execpath
  const [command, first] = cli && /npm-cli\.[cm]?js$/.test(cli) ? [process.execPath, [cli]] : ['npm', []]
  run(command, [...first, ...args], { cwd: tools, env: cleanEnvironment() })
}

/** Runs an installer. What it prints is of interest only when it fails. */
function run(command, args, options) {
  const result = spawnSync(command, args, { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8', ...options })
  if (result.error) throw new Refusal(`${command} could not be run: ${result.error.message}`)
  if (result.status === 0) return
  process.stderr.write(`${result.stdout}${result.stderr}`)
  throw new Refusal(`${command} ${args.join(' ')} failed (${result.signal ?? `exit code ${result.status}`})`)
}

/** Installs one npm package into a folder of its own below .tools; the folder appears by a rename, whole or not. */
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
    throw new Refusal(`Node ${min} or later is needed, and this is ${process.versions.node}: install Node ${pin}`)
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

/** What the installed packages depend on, as one hash. */
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
  // The order in which a file system lists a folder is its own affair.
  manifests.sort((one, other) => (one < other ? -1 : 1))
  for (const name of manifests) {
    const path = join(root, name)
    hash.update(`${name}\n`).update(existsSync(path) ? readFileSync(path) : '')
  }
  return hash.digest('hex')
}

// In node_modules, so that who removes that removes this too.
const stamp = join(root, 'node_modules', '.postern-installed')

function isInstalled(state) {
  return existsSync(stamp) && readFileSync(stamp, 'utf8') === state
}

function installPackages(pnpm, node, state) {
  say('installing the locked packages (once, and after a change of them)')
  const env = cleanEnvironment()
  // With NODE_ENV=production the compiler and the tests would be left out.
  delete env.NODE_ENV
  env.PATH = [dirname(node), dirname(pnpm), env.PATH].join(delimiter)
  run(pnpm, ['install', '--frozen-lockfile', '--config.confirmModulesPurge=false'], { cwd: root, env })
  writeFileSync(stamp, state)
}

/** Runs `work` while no other process of this clone does. */
function alone(work) {
  mkdirSync(tools, { recursive: true })
  return exclusively(join(tools, 'lock'), work, say)
}

/** Makes sure of Node, pnpm and packages; gives the Node to use. Nothing is written when all is there. */
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

/** The environment of a command: ours without what npm adds, and with the clone's own tools first on the PATH. */
function commandEnvironment(node) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)))
  env.PATH = [dirname(node), join(root, 'node_modules', '.bin'), env.PATH].join(delimiter)
  env.NODE_COMPILE_CACHE ??= join(tools, 'compile-cache')
  return env
}

/** Whether somebody has asked for the end: then nothing more begins. */
let isStopped = false

/** Runs a program to its end, hands on the signals that ask for one, and gives its exit code as a shell would. */
function follow(command, args, { env, cwd = root, leash = false }) {
  return new Promise((resolve, reject) => {
    // The program sees the end of descriptor 3 when we are gone, however we went.
    const stdio = leash ? ['inherit', 'inherit', 'inherit', 'pipe'] : 'inherit'
    const child = spawn(command, args, { cwd, env: leash ? { ...env, POSTERN_PARENT_FD: '3' } : env, stdio })
    child.stdio[3]?.on('error', () => undefined)
    const stop = (signal) => {
      isStopped = true
      child.kill(signal)
    }
    const handlers = ['SIGINT', 'SIGTERM', 'SIGHUP'].map((signal) => [signal, () => stop(signal)])
    for (const [signal, handler] of handlers) process.on(signal, handler)
    // npm hands signals on, but when it is killed outright nobody tells us: another parent is the only sign.
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

/** What keeps all processors busy by itself, and asks how long something takes: it runs behind the others, a file at a time. */
const faults = 'test/fault'

/** The checks, then every test; with arguments only the tests that they select. Both leave a report for CI. */
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

/** What leaves a report for CI, and beside it the errors outside every test. */
function reporting(name) {
  const errors = join(root, 'packages', 'local-stack', 'errors-reporter.mjs')
  const report = `--outputFile.json=${join(reports, `${name}.json`)}`
  return ['--reporter=default', '--reporter=json', `--reporter=${errors}`, report]
}

/** The faults in their long form: each by itself, then in pairs. */
async function testFaults({ env, ...context }, args) {
  return await follow('vitest', ['run', 'test/fault/faults.test.ts', ...args], {
    ...context,
    env: { ...env, POSTERN_FAULTS: 'long' },
  })
}

/** What the tests of the code that decides do not notice, area by area. */
const testMutation = fromSource('verification/mutation/run.ts')

/** Half an hour of steady load: what grows? */
const testSoak = fromSource('verification/soak/run.ts')

/** Requests made from the contracts, round after round for ten minutes. */
async function testFuzz({ env, ...context }, args) {
  return await follow('vitest', ['run', 'verification/fuzz/contract-fuzzing.test.ts', ...args], {
    ...context,
    env: { POSTERN_FUZZ_MINUTES: '10', ...env },
  })
}

/** Files of 2 GiB in and out, every way and into either store, where the usual run takes 96 and 256 MiB. */
async function testUpload({ env, ...context }, args) {
  return await follow('vitest', ['run', 'test/end-to-end/large-upload', ...args], {
    ...context,
    env: { POSTERN_TEST_UPLOAD_MIB: '2048', ...env },
  })
}

/** Backup and restore. Leaves a report for CI. */
async function testRecovery({ env, ...context }, args) {
  return await follow('vitest', ['run', 'test/recovery', ...reporting('recovery'), ...args], {
    ...context,
    env: { ...env, POSTERN_RECOVERY: 'on' },
  })
}

/** Exports against NIST's schema and the rules of liboscal, with Maven and Java. */
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

/** As one file, which Node reads in half the time: these two are waited for by somebody. */
function fromProgram(name) {
  return async ({ node, ...context }, args, options = {}) =>
    await follow(node, [programs(node).pathOf(name), ...args], { ...context, ...options })
}

function programs(node) {
  const found = findPrograms()
  return found.isBuilt ? found : alone(() => ensurePrograms(node))
}

/** What an installation runs, from the lock file, as pnpm tells it. */
function inventory(args) {
  return async ({ env }, more) => {
    const { path, install } = pnpmPlan()
    if (!existsSync(path)) alone(install)
    return await follow(path, [...args, ...more], { cwd: root, env })
  }
}

/** What the image holds, as deploy/Dockerfile says it. */
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
  // Packages with hashes and licences, for whoever audits or answers for them.
  sbom: inventory([...installed, 'sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'application', '--prod']),
  licences: inventory([...installed, 'licenses', 'list', '--prod']),
  bench: fromSource('verification/bench/run.ts'),
  docs: fromSource('verification/documents/run.ts'),
  'test:recovery': testRecovery,
  'test:containers': (context, args) => testContainers(context, args),
  // Where the caller is, so that a path in an argument means what it says there.
  postern: (context, args) => postern(context, args, { cwd: process.env.INIT_CWD ?? process.cwd() }),
}

async function main([name, ...args]) {
  const command = Object.hasOwn(commands, name ?? '') ? commands[name] : undefined
  if (command === undefined) throw new Refusal(`no such command; there are ${Object.keys(commands).join(', ')}`)
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
