// The development provider of `npm start`. It does not start in production.
import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { loopback } from '../ports.ts'
import { demoPeople } from './people.ts'
import { createDevelopmentProvider } from './provider.ts'
import { readSignInSettings } from './settings.ts'

const tenantsSchema = z.object({ tenants: z.record(z.string(), z.object({ id: z.string() })) })

function log(fields: Readonly<Record<string, unknown>>): void {
  console.log(JSON.stringify({ service: 'sign-in', time: new Date().toISOString(), ...fields }))
}

try {
  const settings = readSignInSettings(process.env)
  const server = createDevelopmentProvider({
    ...settings,
    people: demoPeople,
    tenantId: async (slug) => {
      const { tenants } = tenantsSchema.parse(JSON.parse(await readFile(settings.demoFile, 'utf8')))
      return tenants[slug]?.id
    },
  })
  server.once('error', (error) => {
    log({ level: 'fatal', event: 'start_failed', reason: error.message })
    process.exit(1)
  })
  server.listen({ host: loopback, port: settings.port }, () => {
    log({ level: 'info', event: 'listening', port: settings.port })
  })
  process.once('SIGTERM', () => {
    server.close()
    server.closeAllConnections()
  })
} catch (error) {
  log({ level: 'fatal', event: 'start_failed', reason: error instanceof Error ? error.message : 'unknown' })
  process.exitCode = 1
}
