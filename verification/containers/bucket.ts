import type { Compose } from './compose.ts'

/** Prints `<tenant> <sha256>` for each blob whose bytes match its name. */
const hashBucket = `
const { S3Client, ListObjectsV2Command, GetObjectCommand } =
  require('module').createRequire('/app/services/evidence/package.json')('@aws-sdk/client-s3')
const { createHash } = require('crypto')
const { readFileSync } = require('fs')
const setting = (name) => process.env['POSTERN_BLOB_S3_' + name]
const secret = (name) => readFileSync(setting(name + '_FILE'), 'utf8').trim()
const credentials = { accessKeyId: secret('ACCESS_KEY_ID'), secretAccessKey: secret('SECRET_ACCESS_KEY') }
const s3 = new S3Client({ endpoint: setting('ENDPOINT'), region: 'us-east-1', forcePathStyle: true, credentials })
const Bucket = setting('BUCKET')
const names = []
const list = async (ContinuationToken) => {
  const page = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: 'blobs/', ContinuationToken }))
  names.push(...(page.Contents ?? []).map(({ Key }) => Key))
  if (page.NextContinuationToken) await list(page.NextContinuationToken)
}
const look = async (queue) => {
  for (const name of queue) {
    const [, tenant, sha256, random] = name.split('/')
    const hash = createHash('sha256')
    const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key: 'data/' + tenant + '/' + random }))
    for await (const chunk of Body) hash.update(chunk)
    if (hash.digest('hex') === sha256) console.log(tenant + ' ' + sha256)
  }
}
list().then(() => { const queue = names.values(); return Promise.all([look(queue), look(queue), look(queue)]) })`

/** Reads all bytes. */
export async function findWholeBlobs(system: Compose): Promise<ReadonlySet<string>> {
  const [evidence = ''] = await system.containers('evidence')
  const said = await system.docker(['exec', evidence, 'node', '-e', hashBucket], { timeoutMs: 600_000 })
  return new Set(said.split('\n').filter((line) => line !== ''))
}
