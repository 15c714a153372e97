import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

// Not `module`: packages offer it for bundlers, and Node cannot always read it.
const conditions = ['@postern/source', 'node', 'development|production']

const separate = [
  ...(process.env['POSTERN_RECOVERY'] === undefined ? ['test/recovery/**'] : []),
  ...(process.env['POSTERN_OSCAL'] === undefined ? ['services/findings/test/oscal/**'] : []),
]

/** Short files that run long. */
const runsLong = /\/(?:packages\/local-stack|test\/(?:browser|upgrade))\//

/** Vitest sorts files by size until it has times. */
class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- it is no array's
    const sorted = await super.sort(files)
    const [early = [], late = []] = [true, false].map((isEarly) =>
      sorted.filter(({ moduleId }) => runsLong.test(moduleId) === isEarly),
    )
    return [...early, ...late]
  }
}

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  // Without it, globalSetup finds no entry of our packages in a clone without builds.
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
    // Tests do not change shared state, and loading every module for each file is slow.
    isolate: false,
    // Tests spend half of their time waiting.
    maxWorkers: Math.max(5, availableParallelism() - 1),
    sequence: { sequencer: LongFirst },
    testTimeout: 300_000,
    expect: { poll: { timeout: 20_000 } },
    hookTimeout: 600_000,
    // Failures show everything that they list.
    chaiConfig: { truncateThreshold: 0 },
    reporters: ['default'],
  },
})
