import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

const conditions = ['@postern/source', 'node', 'development|production']

// Tests that run on containers, one after the other: they share one installation.
export default defineConfig({
  resolve: {
    conditions,
    alias: [{ find: '@postern/local-stack/testing', replacement: join(import.meta.dirname, 'testing.ts') }],
  },
  ssr: { resolve: { conditions } },
  environments: { __vitest__: { resolve: { conditions } } },
  test: {
    root: join(import.meta.dirname, '..', '..'),
    include: [
      'test/containers/*.test.ts',
      // What an integrator does, through the compose file.
      'test/end-to-end/integrator-reads-findings.test.ts',
      // What the database and the keys promise, on a PostgreSQL and a Redis in containers.
      'packages/tenant-db/test/*.test.ts',
      'services/keys/test/*.test.ts',
    ],
    exclude: ['**/node_modules/**', '**/dist/**'],
    globalSetup: [join(import.meta.dirname, 'postgres-container.ts')],
    fileParallelism: false,
    testTimeout: 600_000,
    hookTimeout: 300_000,
    reporters: ['default'],
  },
})
