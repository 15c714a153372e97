// Every process of the stack as one file. Node reads some 900 modules to start a service from its sources, which takes twice as
// long as everything else that the start does. Plain JavaScript without any dependency but the bundler, which is read when
// there is something to build: `bootstrap.mjs` asks it first, before it knows whether packages are installed.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const own = fileURLToPath(import.meta.url)
const root = join(dirname(own), '..', '..')
const folder = join(root, '.tools', 'programs')

/** The programs by name, and the module that each one runs. */
const programs = {
  gateway: 'services/gateway/src/main.ts',
  keys: 'services/keys/src/main.ts',
  findings: 'services/findings/src/main.ts',
  universe: 'services/universe/src/main.ts',
  evidence: 'services/evidence/src/main.ts',
  sync: 'services/sync/src/main.ts',
  console: 'services/console/src/main.ts',
  'sign-in': 'packages/local-stack/src/sign-in/main.ts',
  start: 'packages/local-stack/src/start.ts',
  postern: 'packages/cli/src/main.ts',
}

/** Builds are kept for a week, since processes that were started from one may still read parts of it. */
const keptMs = 7 * 86_400_000

/** By hand: `recursive` came with Node 18.17, and this runs on the Node of the machine. */
function filesUnder(parent) {
  return readdirSync(parent, { withFileTypes: true }).flatMap((entry) => {
    const path = join(parent, entry.name)
    return entry.isDirectory() ? filesUnder(path) : [path]
  })
}

function sourceFiles() {
  const files = []
  for (const group of ['packages', 'services']) {
    for (const name of readdirSync(join(root, group))) {
      const source = join(root, group, name, 'src')
      if (!existsSync(source)) continue
      files.push(...filesUnder(source).filter((path) => /(?<!\.test)\.ts$/.test(path)))
    }
  }
  return [...files, join(root, 'pnpm-lock.yaml'), own]
}

/** What the programs are made of, as a name: paths, sizes and times of change, since reading it all takes longer. */
function stateOfSources() {
  const hash = createHash('sha256').update(process.platform)
  const files = sourceFiles()
  files.sort()
  for (const path of files) {
    const { size, mtimeMs } = statSync(path)
    hash.update(`${path}\n${size} ${mtimeMs}\n`)
  }
  return hash.digest('hex').slice(0, 24)
}

/** Where the programs of the sources as they are now belong, and whether they are there. */
export function findPrograms() {
  const built = join(folder, stateOfSources())
  return { folder: built, isBuilt: existsSync(built), pathOf: (name) => join(built, `${name}.mjs`) }
}

/**
 * Builds the programs if they are not there, in a process of its own, and gives where they are. Several may do so at once.
 * `node` is the Node that builds, by default this one.
 */
export function ensurePrograms(node = process.execPath) {
  if (ready !== undefined) return ready
  const found = findPrograms()
  if (found.isBuilt) return (ready = found)
  const built = spawnSync(node, [own], { stdio: ['ignore', 'inherit', 'inherit'] })
  if (built.status !== 0)
    throw new Error(`the programs could not be built (${built.signal ?? `exit code ${built.status}`})`)
  return (ready = found)
}

/** All processes that this one starts are of the same sources, also when somebody changes them meanwhile. */
let ready

async function buildAll() {
  const found = findPrograms()
  const unfinished = join(folder, `unfinished-${process.pid}`)
  mkdirSync(folder, { recursive: true })
  removeOld()
  try {
    await build(unfinished)
    renameSync(unfinished, found.folder)
  } catch (error) {
    // Another process was faster: what it has put there is as good.
    if (!existsSync(found.folder)) throw error
  } finally {
    rmSync(unfinished, { recursive: true, force: true })
  }
}

async function build(directory) {
  const { rolldown } = await import('rolldown')
  const bundle = await rolldown({
    input: Object.fromEntries(Object.entries(programs).map(([name, path]) => [name, join(root, path)])),
    cwd: root,
    platform: 'node',
    // Nothing is left out. The bundler takes a call such as decodeURIComponent(text) for one without an effect, though it throws:
    // what a program refuses would depend on how it was put together.
    treeshake: false,
    resolve: { conditionNames: ['@postern/source', 'node'] },
    // What there is only on another system, or is never used, is asked for when it is needed.
    external: ['pg-native', 'rolldown'],
    plugins: [
      { name: 'where-a-module-is', transform: { filter: { id: /\.ts$|programs\.mjs$/ }, handler: withItsPlace } },
    ],
    onLog: (level, log, handle) => level === 'warn' || handle(level, log),
  })
  try {
    await bundle.write({
      dir: directory,
      format: 'esm',
      minify: false,
      entryFileNames: '[name].mjs',
      chunkFileNames: '[name]-[hash].mjs',
    })
  } finally {
    await bundle.close()
  }
}

/** A module of ours finds what lies beside it from where its source is, not from where the program is. */
function withItsPlace(code, id) {
  if (id.includes('node_modules') || !code.includes('import.meta.')) return null
  return code
    .replaceAll('import.meta.dirname', JSON.stringify(dirname(id)))
    .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href))
}

function removeOld() {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name)
    if (Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) > keptMs) {
      rmSync(path, { recursive: true, force: true })
    }
  }
}

if (process.argv[1] === own) await buildAll()
