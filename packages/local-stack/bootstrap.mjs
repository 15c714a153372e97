// Every npm script starts here: installs Node (on Linux), pnpm and packages, then runs the command. Works with Node 18
// and later, without dependencies.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { commandEnvironment } from './commands/follow.mjs'
import { commands, withoutArguments } from './commands/index.mjs'
import { exclusively } from './exclusively.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..')
const tools = join(root, '.tools')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

/** Scripts may read the command's standard output. */
function print(line) {
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

const kept =
  /^npm_config_(registry|userconfig|globalconfig|cache|ca|cafile|cert|key|strict_ssl|proxy|https_proxy|noproxy|fetch_.*|offline|prefer_offline|\/\/.*|@.*)$/i

function cleanEnvironment() {
  const entries = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name) || kept.test(name))
  return Object.fromEntries(entries)
}

function npm(args) {
  const cli = process.env.npm_execpath
  const [command, first] = cli && /npm-cli\.[cm]?js$/.test(cli) ? [process.execPath, [cli]] : ['npm', []]
  run(command, [...first, ...args], { cwd: tools, env: cleanEnvironment() })
}

/** Prints the installer's output only if it fails. */
function run(command, args, options) {
  const result = spawnSync(command, args, { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8', ...options })
  if (result.error) throw new Refusal(`${command} could not be run: ${result.error.message}`)
  if (result.status === 0) return
  process.stderr.write(`${result.stdout}${result.stderr}`)
  throw new Refusal(`${command} ${args.join(' ')} failed (${result.signal ?? `exit code ${result.status}`})`)
}

/** The folder below .tools appears by a rename, so it is always complete. */
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
      print(`this is Node ${process.versions.node}: fetching Node ${pin} into .tools (once)`)
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
      print(`fetching ${name} ${version} into .tools (once)`)
      installTool(folder, `${name}@${version}`)
    },
  }
}

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

// Removed together with the packages.
const stamp = join(root, 'node_modules', '.postern-installed')

function isInstalled(state) {
  return existsSync(stamp) && readFileSync(stamp, 'utf8') === state
}

function installPackages(pnpm, node, state) {
  print('installing the locked packages (once, and after a change of them)')
  const env = cleanEnvironment()
  // NODE_ENV=production would omit the compiler and test tools.
  delete env.NODE_ENV
  env.PATH = [dirname(node), dirname(pnpm), env.PATH].join(delimiter)
  run(pnpm, ['install', '--frozen-lockfile', '--config.confirmModulesPurge=false'], { cwd: root, env })
  writeFileSync(stamp, state)
}

function runExclusively(work) {
  mkdirSync(tools, { recursive: true })
  return exclusively(join(tools, 'lock'), work, print)
}

function prepare() {
  const node = nodePlan()
  const version = node.install ? manifest.config.node.pin : process.versions.node
  const isReady = () => existsSync(node.path) && isInstalled(dependencyState(version))
  if (isReady()) return node.path
  runExclusively(() => {
    if (isReady()) return
    if (!existsSync(node.path)) node.install()
    const pnpm = pnpmPlan()
    if (!existsSync(pnpm.path)) pnpm.install()
    installPackages(pnpm.path, node.path, dependencyState(version))
  })
  return node.path
}

function findPnpm() {
  const { path, install } = pnpmPlan()
  if (!existsSync(path)) runExclusively(install)
  return path
}

async function main([name, ...args]) {
  const command = Object.hasOwn(commands, name ?? '') ? commands[name] : undefined
  if (command === undefined) throw new Refusal(`Unknown command. Use one of ${Object.keys(commands).join(', ')}.`)
  const help = withoutArguments[name]
  if (help !== undefined && args.length > 0) {
    if (!args.includes('--help'))
      throw new Refusal(`npm run ${name} takes no arguments, but was given ${args.join(' ')}.`)
    print(help)
    return 0
  }
  const node = prepare()
  return await command(
    { root, cwd: root, node, env: commandEnvironment(root, node), alone: runExclusively, findPnpm },
    args,
  )
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof Refusal)) throw error
  print(error.message)
  process.exitCode = 1
}
