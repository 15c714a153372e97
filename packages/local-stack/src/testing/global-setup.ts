import { ensurePrograms } from '../../programs.mjs'
import { startTestCluster } from './cluster.ts'

export async function setup(): Promise<(() => Promise<void>) | undefined> {
  // Some runs only read files.
  if (process.env['POSTERN_TEST_SERVERS'] === 'none') return undefined
  // Built here, so that workers do not build them again.
  ensurePrograms()
  const { cluster, stop } = await startTestCluster()
  for (const failure of cluster.failures) console.error(`the test database lacks ${failure}`)
  return stop
}
