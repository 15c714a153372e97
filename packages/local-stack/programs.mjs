// Bundles each program into one file, because reading 900 modules is most of a start. `bootstrap.mjs` imports this
// before packages are installed.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const own = fileURLToPath(import.meta.url)
const root = join(dirname(own), '..', '..')
const folder = join(root, '.tools', 'programs')
const guides = join(root, 'docs', 'guides')
/** Names the sources of the documents that gateways serve. */
const documentsStamp = join(root, 'services', 'gateway', 'dist', 'documents', '.built-from')

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
  documents: 'services/gateway/src/build-documents.ts',
}

const keptMs = 7 * 86_400_000

/** Node 18.0 has no `recursive` option. */
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
  return [...files, ...filesUnder(guides), join(root, 'pnpm-lock.yaml'), own]
}

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

export function findPrograms() {
  const state = stateOfSources()
  const built = join(folder, state)
  const isBuilt = existsSync(built) && hasDocumentsOf(state)
  return { folder: built, isBuilt, pathOf: (name) => join(built, `${name}.mjs`) }
}

function hasDocumentsOf(state) {
  return existsSync(documentsStamp) && readFileSync(documentsStamp, 'utf8') === state
}

/** Concurrent calls are safe. */
export function ensurePrograms(node = process.execPath) {
  if (ready !== undefined) return ready
  const found = findPrograms()
  if (found.isBuilt) return (ready = found)
  const built = spawnSync(node, [own], { stdio: ['ignore', 'inherit', 'inherit'] })
  if (built.status !== 0)
    throw new Error(`the programs could not be built (${built.signal ?? `exit code ${built.status}`})`)
  return (ready = found)
}

let ready

async function buildAll() {
  const found = findPrograms()
  if (!existsSync(found.folder)) await buildPrograms(found)
  buildDocuments(found)
}

function buildDocuments({ folder: built, pathOf }) {
  const state = basename(built)
  if (hasDocumentsOf(state)) return
  const { status } = spawnSync(process.execPath, [pathOf('documents'), state], { stdio: 'inherit' })
  // Another process may have built the same documents.
  if (status !== 0 && !hasDocumentsOf(state)) throw new Error('the documents of the gateway could not be built')
}

async function buildPrograms(found) {
  const unfinished = join(folder, `unfinished-${process.pid}`)
  mkdirSync(folder, { recursive: true })
  removeOld()
  try {
    await build(unfinished)
    renameSync(unfinished, found.folder)
  } catch (error) {
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
    // The bundler would remove calls that validate by throwing.
    treeshake: false,
    resolve: { conditionNames: ['@postern/source', 'node'] },
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

/** `import.meta` must refer to the source file, so that modules find the files beside them. */
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
