import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { publishedOpenApi } from '@postern/contracts'
import fastify from 'fastify'
import scalar from '@scalar/fastify-api-reference'
import { documentsFolder } from './documents.ts'
import { guideNames } from './guides/names.ts'
import { guidePage, guidesIndex } from './guides/pages.ts'
import { referencePage } from './reference-page.ts'

/** The server is set when the document is read. */
const anyServer = 'https://postern.example'

/** Asks the package, because it has no file for the script. */
async function readReferenceScript(): Promise<Buffer> {
  const app = fastify().register(scalar, { routePrefix: '/docs', configuration: { url: 'openapi.json' } })
  const { statusCode, rawPayload } = await app.inject('/docs/js/scalar.js')
  await app.close()
  if (statusCode !== 200) throw new Error('the package of the reference serves its script at another path')
  return rawPayload
}

async function writeCoded(path: string, content: Buffer, quality: number): Promise<void> {
  const params = { [constants.BROTLI_PARAM_QUALITY]: quality }
  await writeFile(path, content)
  await writeFile(`${path}.br`, await promisify(brotliCompress)(content, { params }))
  await writeFile(`${path}.gzip`, await promisify(gzip)(content))
}

async function buildDocuments(folder: string): Promise<void> {
  await mkdir(join(folder, 'guides'), { recursive: true })
  await writeFile(join(folder, 'openapi.json'), JSON.stringify(publishedOpenApi(anyServer)))
  await writeCoded(join(folder, 'reference.html'), referencePage, 9)
  await writeCoded(join(folder, 'reference.js'), await readReferenceScript(), 5)
  await writeCoded(join(folder, 'guides.html'), await guidesIndex(), 9)
  for (const name of guideNames) await writeCoded(join(folder, 'guides', `${name}.html`), await guidePage(name), 9)
}

// The documents appear by a rename, so they are always complete. The argument identifies the sources.
const folder = fileURLToPath(documentsFolder)
const unfinished = join(dirname(folder), `${basename(folder)}-${process.pid}`)
try {
  await buildDocuments(unfinished)
  await writeFile(join(unfinished, '.built-from'), process.argv[2] ?? '')
  await rm(folder, { recursive: true, force: true })
  await rename(unfinished, folder)
} finally {
  await rm(unfinished, { recursive: true, force: true })
}
