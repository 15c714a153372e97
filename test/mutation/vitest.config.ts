import { defineConfig } from 'vitest/config'
import config from '../../vitest.config.ts'

/** Globs of the tests of an area: a mutant that is active while modules are loaded is shown to all tests that there are. */
const tests: readonly string[] = JSON.parse(process.env['POSTERN_MUTATION_TESTS'] ?? '[]')

const asked = tests.filter((glob) => !glob.startsWith('!'))
const spared = tests.flatMap((glob) => (glob.startsWith('!') ? glob.slice(1) : []))

/** Without servers the longest test takes three seconds: what an alteration has stopped for ever need not take two minutes. */
const timeouts = process.env['POSTERN_TEST_SERVERS'] === 'none' ? { testTimeout: 15_000 } : {}

export default defineConfig({
  ...config,
  test: { ...config.test, ...timeouts, include: asked, exclude: [...(config.test?.exclude ?? []), ...spared] },
})
