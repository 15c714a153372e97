// Creates the SBOM of the image (CycloneDX): npm packages, compared with the installed ones, Node.js and system
// packages.
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const [, , file = 'sbom.cdx.json', system = '/', modules = 'node_modules/.pnpm'] = process.argv

function findInstalled() {
  const found = new Set()
  for (const folder of readdirSync(modules, { withFileTypes: true })) {
    const inner = join(modules, folder.name, 'node_modules')
    if (!folder.isDirectory() || folder.name === 'node_modules' || !existsSync(inner)) continue
    for (const name of namesIn(inner)) {
      const path = join(inner, name, 'package.json')
      // Links lead to packages with their own folder.
      if (!folder.name.startsWith(`${name.replace('/', '+')}@`) || !existsSync(path)) continue
      const { version } = JSON.parse(readFileSync(path, 'utf8'))
      found.add(`${name}@${version}`)
    }
  }
  return found
}

function namesIn(folder) {
  return readdirSync(folder).flatMap((name) =>
    name.startsWith('@') ? readdirSync(join(folder, name)).map((own) => `${name}/${own}`) : [name],
  )
}

function readRelease() {
  const path = join(system, 'etc/os-release')
  if (!existsSync(path)) return {}
  const lines = readFileSync(path, 'utf8').matchAll(/^([A-Z_]+)="?([^"\n]*)"?$/gm)
  return Object.fromEntries([...lines].map(([, name, value]) => [name, value]))
}

/** One file, or one per package in images without a package manager. */
function readDebian() {
  const whole = join(system, 'var/lib/dpkg/status')
  const parts = join(system, 'var/lib/dpkg/status.d')
  const texts = existsSync(whole) ? [readFileSync(whole, 'utf8')] : []
  if (existsSync(parts)) {
    for (const name of readdirSync(parts).toSorted()) {
      if (!name.endsWith('.md5sums')) texts.push(readFileSync(join(parts, name), 'utf8'))
    }
  }
  return texts
    .join('\n\n')
    .split(/\n\n+/)
    .map((paragraph) =>
      Object.fromEntries([...paragraph.matchAll(/^([A-Za-z-]+): (.*)$/gm)].map(([, key, value]) => [key, value])),
    )
    .filter(({ Package, Version, Status = 'installed' }) => Package && Version && Status.endsWith('installed'))
    .map(({ Package, Version, Architecture }) => ({ type: 'deb', name: Package, version: Version, arch: Architecture }))
}

function readAlpine() {
  const path = join(system, 'lib/apk/db/installed')
  if (!existsSync(path)) return []
  return readFileSync(path, 'utf8')
    .split('\n\n')
    .map((paragraph) =>
      Object.fromEntries([...paragraph.matchAll(/^([PVA]):(.*)$/gm)].map(([, key, value]) => [key, value])),
    )
    .filter(({ P, V }) => P && V)
    .map(({ P, V, A }) => ({ type: 'apk', name: P, version: V, arch: A }))
}

function componentOf({ type, name, version, arch }, distribution) {
  const qualifiers = [arch && `arch=${arch}`, distribution && `distro=${distribution}`].filter(Boolean).join('&')
  const vendor = type === 'apk' ? 'alpine' : 'debian'
  const purl = `pkg:${type}/${vendor}/${encodeURIComponent(name)}@${encodeURIComponent(version)}${qualifiers && `?${qualifiers}`}`
  return { type: 'library', name, version, purl, 'bom-ref': purl }
}

const bom = JSON.parse(readFileSync(file, 'utf8'))
const installed = findInstalled()
const nameOf = ({ group, name, version }) => `${group ? `${group}/` : ''}${name}@${version}`
const own = bom.components.filter((each) => each.group === '@postern')
const npm = bom.components.filter((each) => installed.has(nameOf(each)))
const listed = new Set(npm.map(nameOf))
const missing = [...installed].filter((name) => !listed.has(name))
if (missing.length > 0) throw new Error(`the bill of materials does not name ${missing.join(', ')}`)

const { ID, VERSION_ID, NAME = 'unknown' } = readRelease()
const distribution = ID && (VERSION_ID ? `${ID}-${VERSION_ID}` : ID)
const packages = [...readDebian(), ...readAlpine()].map((each) => componentOf(each, distribution))
const node = process.versions.node
const purl = `pkg:generic/node@${node}`
const runtime = [
  { type: 'operating-system', name: NAME, version: VERSION_ID ?? 'unknown', 'bom-ref': 'operating-system' },
  {
    type: 'platform',
    name: 'node',
    version: node,
    purl,
    'bom-ref': purl,
    cpe: `cpe:2.3:a:nodejs:node.js:${node}:*:*:*:*:*:*:*`,
  },
  // Libraries that are part of Node.
  ...['openssl', 'v8', 'uv', 'zlib', 'llhttp', 'nghttp2', 'ares', 'undici'].flatMap((name) => {
    const version = process.versions[name]
    return version
      ? [{ type: 'library', name, version, purl: `pkg:generic/${name}@${version}`, 'bom-ref': `node/${name}` }]
      : []
  }),
]
const kept = new Set([...own, ...npm].map((each) => each['bom-ref']).concat(bom.metadata.component['bom-ref']))
bom.components = [...own, ...npm, ...runtime, ...packages]
bom.dependencies = bom.dependencies
  .filter(({ ref }) => kept.has(ref))
  .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter((each) => kept.has(each)) }))
writeFileSync(file, `${JSON.stringify(bom)}\n`)
process.stdout.write(
  `sbom: ${npm.length} packages of npm, Node ${node}, ${packages.length} packages of ${distribution ?? 'no distribution'}\n`,
)
