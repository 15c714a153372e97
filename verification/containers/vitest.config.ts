import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

const conditions = ['@postern/source', 'node', 'development|production']

// One after the other, because they share one installation.
export default defineConfig({
  resolve: {
    conditions,
    alias: [
      { find: '@postern/local-stack/testing', replacement: join(import.meta.dirname, 'testing.ts') },
      { find: '../support/issuer.ts', replacement: join(import.meta.dirname, 'issuer.ts') },
    ],
  },
  ssr: { resolve: { conditions } },
  environments: { __vitest__: { resolve: { conditions } } },
  test: {
    root: join(import.meta.dirname, '..', '..'),
    include: [
      'verification/containers/*.test.ts',
      // The other end-to-end tests need processes, files or settings that the compose file does not publish.
      'test/end-to-end/integrator-reads-findings.test.ts',
      'test/end-to-end/across-services.test.ts',
      'test/end-to-end/administrator-revokes-a-key.test.ts',
      'test/end-to-end/console.test.ts',
      'test/end-to-end/conventions.test.ts',
      'test/end-to-end/reference-page.test.ts',
      'test/end-to-end/large-requests.test.ts',
      'test/end-to-end/large-upload.test.ts',
      'test/end-to-end/resumable-upload.test.ts',
      'test/end-to-end/scopes.test.ts',
      'packages/tenant-db/test/*.test.ts',
      'services/keys/test/*.test.ts',
    ],
    exclude: ['**/node_modules/**', '**/dist/**'],
    globalSetup: [join(import.meta.dirname, 'postgres-container.ts')],
    fileParallelism: false,
    testTimeout: 600_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 30_000 } },
    chaiConfig: { truncateThreshold: 0 },
    reporters: ['default'],
  },
})
