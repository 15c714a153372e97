import { join } from 'node:path'
import * as installation from '@postern/installation'

export type { RingName, Secrets } from '@postern/installation'
export { randomPassword, randomRing, signingRings } from '@postern/installation'

/** Creates missing secrets. `given` are rings from elsewhere. */
export async function openSecrets(
  home: string,
  given: Partial<Record<installation.RingName, string>> = {},
): Promise<installation.Secrets> {
  return await installation.openSecrets(join(home, 'secrets'), given)
}
