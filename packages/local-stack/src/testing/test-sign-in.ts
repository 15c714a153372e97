import { once } from 'node:events'
import { findFreePort, loopback } from '../ports.ts'
import { randomPassword } from '../secrets.ts'
import { type DemoPerson, demoPeople } from '../sign-in/people.ts'
import { type DevelopmentProviderOptions, type TokenShape, createDevelopmentProvider } from '../sign-in/provider.ts'

/** The development provider, in this process. */
export interface TestSignIn {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string
  stop(): Promise<void>
}

export interface TestSignInOptions {
  /** URL of the console, without a final slash. */
  readonly consoleUrl: string
  readonly tenants: Readonly<Record<string, string>>
  /** Default: the people of the demo. */
  readonly people?: readonly DemoPerson[]
  readonly machines?: DevelopmentProviderOptions['machines']
  /** Imitates the tokens of another provider. */
  readonly shape?: TokenShape
}

/** Starts a provider on a free port. */
export async function startTestSignIn(options: TestSignInOptions): Promise<TestSignIn> {
  const port = await findFreePort()
  const settings = {
    issuer: `http://${loopback}:${port}`,
    clientId: 'postern-console',
    clientSecret: randomPassword(),
  }
  const server = createDevelopmentProvider({
    ...settings,
    consoleUrl: options.consoleUrl,
    people: options.people ?? demoPeople,
    ...(options.machines === undefined ? {} : { machines: options.machines }),
    ...(options.shape === undefined ? {} : { shape: options.shape }),
    tenantId: async (slug) => options.tenants[slug],
  })
  server.listen(port, loopback)
  await once(server, 'listening')
  return {
    ...settings,
    stop: async () => {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}
