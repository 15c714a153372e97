// With TLS, which the console requires outside of the loopback address.
import { createPrivateKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:https'
import { join } from 'node:path'
import { z } from 'zod'
import { demoPeople } from '../../packages/local-stack/src/sign-in/people.ts'
import { createDevelopmentProvider } from '../../packages/local-stack/src/sign-in/provider.ts'

const tenantsSchema = z.record(z.string(), z.object({ id: z.string() }))
const [folder = '', issuer = '', consoleUrl = ''] = process.argv.slice(2)
const { hostname, port } = new URL(issuer)
const read = (name: string): Buffer => readFileSync(join(folder, name))

const provider = createDevelopmentProvider({
  issuer,
  consoleUrl,
  clientId: 'postern-console',
  clientSecret: read('client-secret').toString().trim(),
  key: { id: 'tokens', privateKey: createPrivateKey(read('tokens.key')) },
  people: demoPeople,
  tenantId: async (slug) =>
    tenantsSchema.parse(JSON.parse(await readFile(join(folder, 'tenants.json'), 'utf8')))[slug]?.id,
})
const server = createServer({ cert: read(`${hostname}.crt`), key: read(`${hostname}.key`) }, (request, response) => {
  provider.emit('request', request, response)
})
server.listen(Number(port), '0.0.0.0')
process.once('SIGTERM', () => process.exit(0))
