import { ensurePrograms } from '../../programs.mjs'
import { startTestCluster } from './cluster.ts'

/** Vitest calls it once before all test files; what it returns, after the last. */
export async function setup(): Promise<(() => Promise<void>) | undefined> {
  // For runs that read files only.
  if (process.env['POSTERN_TEST_SERVERS'] === 'none') return undefined
  // Before there are workers, each of which would build them.
  ensurePrograms()
  const { cluster, stop } = await startTestCluster()
  for (const failure of cluster.failures) console.error(`the test database lacks ${failure}`)
  return stop
}
