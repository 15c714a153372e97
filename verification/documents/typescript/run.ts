// Builds what the npm package of the client contains: its code, and types without zod. With a folder as argument, packs it there.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { renderApiTypes, renderOperationTypes } from './types.ts'

const [folder] = process.argv.slice(2)
if (folder?.startsWith('-') === true) {
  const isHelp = folder === '--help'
  process[isHelp ? 'stdout' : 'stderr'].write(
    `${isHelp ? '' : `Unknown option '${folder}'.\n`}Usage: npm run client -- [FOLDER]\nWith a folder, packs the npm package there.\n`,
  )
  process.exit(isHelp ? 0 : 2)
}

const root = join(import.meta.dirname, '..', '..', '..')
const client = join(root, 'packages', 'client')
const compiled = join(client, 'dist')
const types = join(client, 'types')

run(join(root, 'node_modules', '.bin', 'tsc'), '-b', client)

const declarations = readdirSync(compiled).filter((name) => name.endsWith('.d.ts'))
const rendered: Readonly<Record<string, string>> = {
  ...Object.fromEntries(declarations.map((name) => [name, toPackage(readFileSync(join(compiled, name), 'utf8'))])),
  'api.d.ts': await renderApiTypes(),
  'operations.d.ts': renderOperationTypes(),
}
rmSync(types, { recursive: true, force: true })
mkdirSync(types)
for (const [name, text] of Object.entries(rendered)) writeFileSync(join(types, name), text)

if (folder !== undefined) run('npm', 'pack', '--ignore-scripts', `--pack-destination=${resolve(folder)}`)

function run(command: string, ...args: readonly string[]): void {
  const { status } = spawnSync(command, args, { cwd: client, stdio: 'inherit' })
  if (status !== 0) process.exit(1)
}

function toPackage(declaration: string): string {
  return declaration
    .replaceAll(/(from '\.[^']*)\.ts'/g, "$1.js'")
    .replaceAll("'@postern/contracts'", "'./api.js'")
    .replace(/\/\/# sourceMappingURL=.*/, '')
}
