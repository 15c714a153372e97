import { matchesGlob, relative } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import config from '../../vitest.config.ts'

/** Globs of the tests of an area: a mutant that is active while modules are loaded is shown to all tests that there are. */
const tests: readonly string[] = JSON.parse(process.env['POSTERN_MUTATION_TESTS'] ?? '[]')

const asked = tests.filter((glob) => !glob.startsWith('!'))
const spared = tests.flatMap((glob) => (glob.startsWith('!') ? glob.slice(1) : []))

/**
 * The longest test takes three seconds without servers, and ten with them: what an alteration has stopped for ever need not take
 * minutes. What is waited for in vain is a failure, and said to be one before the test is given up.
 */
const timeouts = {
  expect: { poll: { timeout: 10_000 } },
  ...(process.env['POSTERN_TEST_SERVERS'] === 'none'
    ? { testTimeout: 25_000 }
    : { testTimeout: 30_000, hookTimeout: 45_000, env: { POSTERN_TEST_WAIT_MS: '3000' } }),
}

/** As the area names them: the first failure ends it, and those that are named first are the ones to notice, or quick. */
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
  test: {
    ...config.test,
    ...timeouts,
    include: asked,
    exclude: [...(config.test?.exclude ?? []), ...spared],
    sequence: { sequencer: AsNamed },
  },
})
