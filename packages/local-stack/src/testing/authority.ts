import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const execute = promisify(execFile)

export interface TestAuthority {
  readonly certificate: string
  /** Creates NAME.crt and NAME.key for a host name and returns both paths. */
  issue(name: string): Promise<{ readonly certificate: string; readonly key: string }>
}

const algorithm = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']

const openssl = async (...args: readonly string[]): Promise<void> => void (await execute('openssl', args))

/** Opens an authority that `makeTestAuthority` has created. */
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

/** Creates an authority that is valid for two days, with OpenSSL's program. The folder must exist. */
export async function makeTestAuthority(folder: string): Promise<TestAuthority> {
  const constraints = ['-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=critical,keyCertSign']
  const subject = ['-subj', '/CN=Authority of a test']
  const out = ['-keyout', join(folder, 'ca.key'), '-out', join(folder, 'ca.crt')]
  await openssl('req', '-x509', ...algorithm, ...subject, ...constraints, ...out)
  return openTestAuthority(folder)
}
