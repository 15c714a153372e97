import { once } from 'node:events'
import { type Socket, createServer } from 'node:net'
import { mintAssertion, parseKeyRing } from '@postern/signed-context'
import { openTenantDb } from '@postern/tenant-db'
import type { Services } from '../services.ts'
import type { Principal, SignedCaller } from '../signed-caller.ts'
import type { Scenario } from './scenario.ts'

export interface QuarantineSender {
  readonly principal: Principal
  readonly files: Scenario['quarantine']
}

interface QuarantineTarget {
  readonly services: Pick<Services, 'restart'>
  readonly databaseUrl: string
  readonly assertionKeys: string
  readonly evidence: SignedCaller
}

export async function seedQuarantine(target: QuarantineTarget, senders: readonly QuarantineSender[]): Promise<void> {
  const lacking: QuarantineSender[] = []
  for (const sender of senders) if (!(await hasQuarantine(target, sender.principal.tenantId))) lacking.push(sender)
  if (lacking.length === 0) return
  const standIn = await startStandIn()
  try {
    try {
      await target.services.restart('evidence', { POSTERN_CLAMAV_URL: standIn.url })
      for (const sender of lacking) await uploadFiles(target.evidence, sender)
    } finally {
      await target.services.restart('evidence')
    }
  } finally {
    await standIn.stop()
  }
}

async function hasQuarantine({ databaseUrl, assertionKeys }: QuarantineTarget, tenantId: string): Promise<boolean> {
  const db = openTenantDb({
    connectionString: databaseUrl,
    maxConnections: 1,
    connectTimeoutMs: 5_000,
    queryTimeoutMs: 10_000,
    applicationName: 'postern-demo',
  })
  try {
    const assertion = mintAssertion(parseKeyRing(assertionKeys), tenantId, Date.now())
    const text = "select f.id from evidence.file f where f.scan = 'infected' limit 1"
    return (await db.read({ assertion }, async (tx) => tx.query({ text, values: [] }))).length > 0
  } finally {
    await db.close()
  }
}

async function uploadFiles(evidence: SignedCaller, { principal, files }: QuarantineSender): Promise<void> {
  for (const { fileName, contentType, body } of files) {
    const target = `/api/v1/evidence?file_name=${fileName}`
    const { status, text } = await evidence.call(principal, 'POST', target, {
      body,
      headers: { 'content-type': contentType },
    })
    if (status !== 201) throw new Error(`could not upload ${fileName}: the answer was ${status} ${text.slice(0, 500)}`)
  }
}

async function startStandIn(): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const open = new Set<Socket>()
  const server = createServer((socket) => {
    open.add(socket)
    socket.on('close', () => open.delete(socket))
    socket.on('error', () => socket.destroy())
    socket.write('1: ClamAV stand-in of the demo\0')
    let end = ''
    socket.on('data', (bytes: Buffer) => {
      end = (end + bytes.toString('latin1')).slice(-endOfStream.length)
      if (end === endOfStream) socket.write('2: stream: Postern.Demo FOUND\0')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the stand-in has no port')
  return {
    url: `tcp://127.0.0.1:${address.port}`,
    stop: async () => {
      server.close()
      for (const socket of open) socket.destroy()
      await once(server, 'close')
    },
  }
}

const endOfStream = '\0\0\0\0zEND\0'
