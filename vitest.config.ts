import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

// Not `module`: what packages offer under it is for bundlers, and Node cannot always read it.
const conditions = ['@postern/source', 'node', 'development|production']

/** What takes long runs by a command of its own. */
const long = process.env['POSTERN_RECOVERY'] === undefined ? ['test/recovery/**'] : []

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  // Where globalSetup runs: without it a clone in which nothing has been built finds no entry of our packages.
  environments: { __vitest__: { resolve: { conditions } } },
  test: {
    include: [
      'packages/*/src/**/*.test.ts',
      'packages/*/test/**/*.test.ts',
      'services/*/{src,test}/**/*.test.ts',
      'services/console/web/src/**/*.test.ts',
      'test/**/*.test.ts',
    ],
    exclude: ['**/node_modules/**', '**/dist/**', 'test/containers/**', ...long],
    globalSetup: ['packages/local-stack/src/testing/global-setup.ts'],
    // No test changes what its process shares with the others. To load every module anew for each file took a third of the time.
    isolate: false,
    // Most tests wait for processes and databases: two at a time also on a machine with two processors.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    testTimeout: 120_000,
    // How long what is waited for may take says nothing of whether it comes: machines are busy.
    expect: { poll: { timeout: 20_000 } },
    hookTimeout: 240_000,
    reporters: ['default'],
  },
})
