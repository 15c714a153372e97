import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { buildConsolePages } from '@postern/local-stack/testing'
import { describe, expect, test } from 'vitest'

const built = join(import.meta.dirname, '..', '..', 'services', 'console', 'web', 'dist')

/** In bytes of gzip: what a browser loads before anything of the console can be seen. */
const limit = 200_000

function gzipOf(path: string): number {
  return gzipSync(readFileSync(join(built, path)), { level: 9 }).length
}

describe('the first page of the console', () => {
  test('is at most 200 KB with all required scripts and styles', async () => {
    await buildConsolePages()
    const html = readFileSync(join(built, 'index.html'), 'utf8')
    // Vite names what the first script imports, and what that imports, as modulepreload.
    const needed = [...html.matchAll(/(?:src|href)="\.(\/[^"]+\.(?:js|css))"/g)].map(([, path = '']) => path)
    expect(needed.filter((path) => path.endsWith('.js')).length).toBeGreaterThan(1)
    expect(needed.filter((path) => path.endsWith('.css'))).toHaveLength(1)
    const size = [...new Set(needed), 'index.html'].reduce((sum, path) => sum + gzipOf(path), 0)
    // Below this it would be no console: something was not counted.
    expect(size).toBeGreaterThan(50_000)
    expect(size).toBeLessThanOrEqual(limit)
    // Builds the pages first if the sources have changed.
  }, 300_000)
})
