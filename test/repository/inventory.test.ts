import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'

const root = join(import.meta.dirname, '..', '..')
let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'inventory-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function write(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
}

const component = (name: string, version: string) => ({ name, version, 'bom-ref': `${name}@${version}` })

/** Returns the inventory of an image whose pnpm store contains `@scope/a` and `b`, or the error. */
function takeStock(components: readonly unknown[]): { readonly names: readonly string[]; readonly error: string } {
  write('modules/@scope+a@1.0.0_peer/node_modules/@scope/a/package.json', '{"version":"1.0.0"}')
  write('modules/@scope+a@1.0.0_peer/node_modules/linked/package.json', '{"version":"9.9.9"}')
  write('modules/b@2.0.0/node_modules/b/package.json', '{"version":"2.0.0"}')
  write(
    'sbom.json',
    JSON.stringify({
      components,
      dependencies: [{ ref: 'b@2.0.0', dependsOn: ['gone@1.0.0', 'a@1.0.0'] }, { ref: 'gone@1.0.0' }],
      metadata: { component: { 'bom-ref': 'postern' } },
    }),
  )
  const args = [join(root, 'deploy/inventory.mjs'), 'sbom.json', 'system', 'modules']
  const { stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' })
  const told = JSON.parse(readFileSync(join(folder, 'sbom.json'), 'utf8'))
  if (stderr === '') expect(told.dependencies).toEqual([{ ref: 'b@2.0.0', dependsOn: ['a@1.0.0'] }])
  return {
    names: told.components.map(({ purl, name, version }: Record<string, string>) => purl ?? `${name}@${version}`),
    error: stderr,
  }
}

const both = [{ ...component('a', '1.0.0'), group: '@scope' }, component('b', '2.0.0')]

describe('the bill of materials of an image', () => {
  test('names exactly the installed packages', () => {
    const { names } = takeStock([...both, component('gone', '1.0.0')])
    expect(names).toEqual(expect.arrayContaining(['a@1.0.0', 'b@2.0.0', `pkg:generic/node@${process.versions.node}`]))
    expect(names.join()).not.toContain('gone')
  })

  test('is rejected if it omits a file', () => {
    expect(takeStock(both.slice(1)).error).toContain('does not name @scope/a@1.0.0')
  })

  test.each([
    ['var/lib/dpkg/status', 'of Debian'],
    ['var/lib/dpkg/status.d/libc6', 'of an image without a package manager'],
  ])('names the packages in %s', (path) => {
    write('system/etc/os-release', 'ID=debian\nVERSION_ID="13"\nNAME="Debian GNU/Linux"\n')
    const status = 'Status: install ok installed\n'
    write(
      `system/${path}`,
      `Package: libc6\n${status}Version: 2.41-12+deb13u1\nArchitecture: amd64\nDescription: C\n Package: no\n\n` +
        'Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n',
    )
    const { names } = takeStock(both)
    expect(names.filter((name) => name.startsWith('pkg:deb/'))).toEqual([
      'pkg:deb/debian/libc6@2.41-12%2Bdeb13u1?arch=amd64&distro=debian-13',
    ])
    expect(names).toContain('Debian GNU/Linux@13')
  })

  test('names the packages of Alpine', () => {
    write('system/etc/os-release', 'ID=alpine\nVERSION_ID=3.24\nNAME="Alpine Linux"\n')
    write('system/lib/apk/db/installed', 'C:x\nP:musl\nV:1.2.5-r20\nA:x86_64\n\nP:zlib\nV:1.3.1-r2\nA:x86_64\n')
    expect(takeStock(both).names.filter((name) => name.startsWith('pkg:apk/'))).toEqual([
      'pkg:apk/alpine/musl@1.2.5-r20?arch=x86_64&distro=alpine-3.24',
      'pkg:apk/alpine/zlib@1.3.1-r2?arch=x86_64&distro=alpine-3.24',
    ])
  })
})
