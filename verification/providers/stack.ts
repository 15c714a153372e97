import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestStack, startTestCluster, startTestStack } from '@postern/local-stack/testing'
import { tenants } from './people.ts'

export const clientId = 'postern-console'

export interface Installation {
  readonly stack: TestStack
  readonly ids: Readonly<Record<string, string>>
  stop(): Promise<void>
}

/** Starts every service and the console, with a mapping file if there is one. */
export async function startInstallation(mappingFile?: string): Promise<Installation> {
  const cluster = await startTestCluster()
  // In place of the development provider.
  const env =
    mappingFile === undefined
      ? {}
      : { POSTERN_SIGN_IN: await readFile(mappingFile, 'utf8'), POSTERN_OIDC_CLIENT_SECRET: '' }
  try {
    const stack = await startTestStack({ console: true, env, tenants })
    const ids = Object.fromEntries(stack.tenants.map(({ slug, id }) => [slug, id]))
    return {
      stack,
      ids,
      stop: async () => {
        await stack.stop()
        await cluster.stop()
      },
    }
  } catch (error) {
    await cluster.stop()
    throw error
  }
}

/** Writes the secret of the console and a mapping file with this provider, and returns the path of the file. */
export async function writeMapping(folder: string, secret: string, provider: object): Promise<string> {
  const secretFile = join(folder, 'client-secret')
  await writeFile(secretFile, secret)
  const file = join(folder, 'sign-in.json')
  const whole = { name: 'Staff', client_id: clientId, client_secret_file: secretFile, ...provider }
  await writeFile(file, JSON.stringify({ providers: [whole] }))
  return file
}
