import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

// Not `module`: what packages offer under it is for bundlers, and Node cannot always read it.
const conditions = ['@postern/source', 'node', 'development|production']

/** Tests that run only by a command of their own: they take long, or need more than Node.js. */
const separate = [
  ...(process.env['POSTERN_RECOVERY'] === undefined ? ['test/recovery/**'] : []),
  ...(process.env['POSTERN_OSCAL'] === undefined ? ['services/findings/test/oscal/**'] : []),
]

/** Tests that start and stop programs: short to read, and long to run. */
const startsPrograms = /\/(?:packages\/local-stack|test\/upgrade)\//

/** Files go by their size until there are times to go by: what takes long although it is short would run last, and alone. */
class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- it is no array's
    const sorted = await super.sort(files)
    const [early = [], late = []] = [true, false].map((isEarly) =>
      sorted.filter(({ moduleId }) => startsPrograms.test(moduleId) === isEarly),
    )
    return [...early, ...late]
  }
}

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
      'verification/**/*.test.ts',
    ],
    exclude: ['**/node_modules/**', '**/dist/**', 'verification/containers/**', ...separate],
    globalSetup: ['packages/local-stack/src/testing/global-setup.ts'],
    // No test changes what its process shares with the others. To load every module anew for each file took a third of the time.
    isolate: false,
    // Most tests wait for processes and databases: two at a time leave two processors idle for a good part of the time.
    maxWorkers: Math.max(3, availableParallelism() - 1),
    sequence: { sequencer: LongFirst },
    testTimeout: 300_000,
    // How long what is waited for may take says nothing of whether it comes: machines are busy.
    expect: { poll: { timeout: 20_000 } },
    hookTimeout: 600_000,
    // Failures name everything that they list.
    chaiConfig: { truncateThreshold: 0 },
    reporters: ['default'],
  },
})
