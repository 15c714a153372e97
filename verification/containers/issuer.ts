// Replaces test/support/issuer.ts in container tests: tokens come from the installation's provider.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { importPKCS8 } from 'jose'
import { type TokenSource, createTokenSource } from '../../test/support/tokens.ts'
import { findInstallation } from './installation.ts'

export interface RunningIssuer extends TokenSource {
  stop(): Promise<void>
}

export async function startIssuer(): Promise<RunningIssuer> {
  const { issuer, trust } = findInstallation().installation
  const key = await importPKCS8(readFileSync(join(trust, 'tokens.key'), 'utf8'), 'ES256')
  return { ...createTokenSource(issuer, key, 'tokens'), stop: async () => undefined }
}
