import { matchesGlob, relative, resolve } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import config from '../../vitest.config.ts'

/** A mutant that is active during imports is run against all tests. */
const tests: readonly string[] = JSON.parse(process.env['POSTERN_MUTATION_TESTS'] ?? '[]')

const asked = tests.filter((glob) => !glob.startsWith('!'))
const spared = tests.flatMap((glob) => (glob.startsWith('!') ? glob.slice(1) : []))

/** Longer than the longest test, so that endless mutants end early. */
const timeouts = {
  expect: { poll: { timeout: 10_000 } },
  ...(process.env['POSTERN_TEST_SERVERS'] === 'none'
    ? { testTimeout: 25_000 }
    : { testTimeout: 30_000, hookTimeout: 45_000, env: { POSTERN_TEST_WAIT_MS: '3000' } }),
}

/** The first failure ends the run, so the most likely ones come first. */
class AsNamed extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return files.toSorted((a, b) => placeOf(a) - placeOf(b))
  }
}

function placeOf({ moduleId }: TestSpecification): number {
  return asked.findIndex((glob) => matchesGlob(relative('.', moduleId), glob))
}

export default defineConfig({
  ...config,
  resolve: {
    ...config.resolve,
    // StrykerJS links node_modules of the original, where packages are not altered.
    alias: { '@postern/service-kit/access': resolve('packages/service-kit/src/access/index.ts') },
  },
  test: {
    ...config.test,
    ...timeouts,
    include: asked,
    exclude: [...(config.test?.exclude ?? []), ...spared],
    sequence: { sequencer: AsNamed },
  },
})
