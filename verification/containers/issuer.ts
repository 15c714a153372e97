// Stands in for test/support/issuer.ts where tests run on containers: tokens of the provider that the installation knows.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { importPKCS8 } from 'jose'
import { type TokenSource, createTokenSource } from '../../test/support/tokens.ts'
import { findInstallation } from './installation.ts'

export interface RunningIssuer extends TokenSource {
  stop(): Promise<void>
}

/** The provider of the installation, which runs on. */
export async function startIssuer(): Promise<RunningIssuer> {
  const { issuer, trust } = findInstallation().installation
  const key = await importPKCS8(readFileSync(join(trust, 'tokens.key'), 'utf8'), 'ES256')
  return { ...createTokenSource(issuer, key, 'tokens'), stop: async () => undefined }
}
