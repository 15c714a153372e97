import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const execute = promisify(execFile)

/** An authority for certificates in a folder. */
export interface TestAuthority {
  /** The file of what is trusted, `ca.crt`. */
  readonly certificate: string
  /** Makes NAME.crt and NAME.key in the folder, for a server that is called so. Gives both files. */
  issue(name: string): Promise<{ readonly certificate: string; readonly key: string }>
}

const algorithm = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']

const openssl = async (...args: readonly string[]): Promise<void> => void (await execute('openssl', args))

/** An authority that `makeTestAuthority` has made in this folder. */
export function openTestAuthority(folder: string): TestAuthority {
  const path = (name: string): string => join(folder, name)
  return {
    certificate: path('ca.crt'),
    issue: async (name) => {
      const [key, certificate] = [path(`${name}.key`), path(`${name}.crt`)]
      await openssl('req', ...algorithm, '-subj', `/CN=${name}`, '-keyout', key, '-out', path(`${name}.csr`))
      await writeFile(path(`${name}.ext`), `subjectAltName=DNS:${name}\n`)
      const signing = ['-CA', path('ca.crt'), '-CAkey', path('ca.key'), '-CAcreateserial', '-days', '2']
      const own = ['-in', path(`${name}.csr`), '-out', certificate, '-extfile', path(`${name}.ext`)]
      await openssl('x509', '-req', ...signing, ...own)
      return { certificate, key }
    },
  }
}

/** Makes an authority that lives for two days, with OpenSSL's own program. The folder must be there. */
export async function makeTestAuthority(folder: string): Promise<TestAuthority> {
  const constraints = ['-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=critical,keyCertSign']
  const subject = ['-subj', '/CN=Authority of a test']
  const out = ['-keyout', join(folder, 'ca.key'), '-out', join(folder, 'ca.crt')]
  await openssl('req', '-x509', ...algorithm, ...subject, ...constraints, ...out)
  return openTestAuthority(folder)
}
