import { defineConfig } from 'vitest/config'
import config from '../../vitest.config.ts'

/** Globs of the tests of an area: a mutant that is active while modules are loaded is shown to all tests that there are. */
const tests: readonly string[] = JSON.parse(process.env['POSTERN_MUTATION_TESTS'] ?? '[]')

export default defineConfig({ ...config, test: { ...config.test, include: [...tests] } })
