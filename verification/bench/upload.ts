import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { findFreePort } from '@postern/local-stack/testing'
import { Client } from 'undici'
import { type Peer, findProgram, measuredCore, startPeer } from './processes.ts'
import { median, round } from './stats.ts'
import type { System } from './system.ts'

export interface UploadResult {
  readonly mebibytes: number
  readonly evidence: number
  /** Undefined without nginx or its module for PUT. */
  readonly nginx: number | undefined
  readonly nginxSynced: number | undefined
  readonly ratio: number | undefined
  readonly syncedRatio: number | undefined
}

const mebibyte = 1024 * 1024

export async function measureUpload(
  system: System,
  { folder, mebibytes, rounds }: { readonly folder: string; readonly mebibytes: number; readonly rounds: number },
): Promise<UploadResult> {
  await system.restartGateway({})
  const [gateway] = system.stack.gateways
  if (gateway === undefined) throw new Error('there is no gateway')
  const { key } = await system.stack.createKey(system.tenant, { scopes: ['write:evidence'] })
  const nginx = await startDav(folder)
  try {
    const rates = { evidence: [] as number[], nginx: [] as number[], synced: [] as number[] }
    for (let turn = 0; turn < rounds; turn += 1) {
      const name = `upload-${turn}.bin`
      rates.evidence.push(
        await send(gateway, { method: 'POST', path: `/api/v1/evidence?file_name=${name}`, mebibytes, key }),
      )
      if (nginx === undefined) continue
      const startedAt = performance.now()
      rates.nginx.push(await send(nginx.peer.url, { method: 'PUT', path: `/${name}`, mebibytes }))
      await sync(join(nginx.files, name))
      rates.synced.push(mebibytes / ((performance.now() - startedAt) / 1000))
      await rm(join(nginx.files, name))
    }
    const evidence = median(rates.evidence)
    if (nginx === undefined) {
      return {
        mebibytes,
        evidence: round(evidence, 0),
        nginx: undefined,
        nginxSynced: undefined,
        ratio: undefined,
        syncedRatio: undefined,
      }
    }
    const [plain, synced] = [median(rates.nginx), median(rates.synced)]
    return {
      mebibytes,
      evidence: round(evidence, 0),
      nginx: round(plain, 0),
      nginxSynced: round(synced, 0),
      ratio: round(evidence / plain),
      syncedRatio: round(evidence / synced),
    }
  } finally {
    await nginx?.peer.stop()
  }
}

async function sync(path: string): Promise<void> {
  const file = await open(path)
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

async function send(
  origin: string,
  { method, path, mebibytes, key }: { method: 'POST' | 'PUT'; path: string; mebibytes: number; key?: string },
): Promise<number> {
  const client = new Client(origin, { headersTimeout: 300_000, bodyTimeout: 300_000 })
  const block = randomBytes(mebibyte)
  const content = Readable.from(
    (function* blocks() {
      for (let sent = 0; sent < mebibytes; sent += 1) yield block
    })(),
    { highWaterMark: 4 },
  )
  try {
    const startedAt = performance.now()
    const { statusCode, body } = await client.request({
      method,
      path,
      headers: {
        'content-type': 'application/octet-stream',
        'content-length': String(mebibytes * mebibyte),
        ...(key === undefined ? {} : { authorization: `ApiKey ${key}` }),
      },
      body: content,
    })
    const text = await body.text()
    if (statusCode !== 201) throw new Error(`the upload was refused: ${statusCode} ${text}`)
    return mebibytes / ((performance.now() - startedAt) / 1000)
  } finally {
    await client.close()
  }
}

async function startDav(folder: string): Promise<{ peer: Peer; files: string } | undefined> {
  const program = findProgram('nginx')
  if (program === undefined) return undefined
  const home = await mkdtemp(join(folder, 'dav-'))
  const files = join(home, 'files')
  await mkdir(files)
  const port = await findFreePort()
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((kind) => `${kind}_temp_path ${join(home, kind)};`)
    .join(' ')
  await writeFile(
    join(home, 'nginx.conf'),
    `daemon off; master_process off; pid ${join(home, 'pid')}; error_log ${join(home, 'error.log')} crit;
    events { worker_connections 64; }
    http { access_log off; ${temporary} client_max_body_size 0;
      server { listen 127.0.0.1:${port}; root ${files}; location / { dav_methods PUT; } } }`,
  )
  const args = ['-c', join(home, 'nginx.conf'), '-p', home]
  try {
    return { peer: await startPeer({ name: 'nginx, PUT', command: program, args, port, core: measuredCore }), files }
  } catch {
    return undefined
  }
}
