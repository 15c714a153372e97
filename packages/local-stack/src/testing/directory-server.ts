import { execFile } from 'node:child_process'
import { connect } from 'node:net'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findFreePort, loopback } from '../ports.ts'
import { launch, waitUntilReady } from '../processes.ts'
import { makeTestFolder } from './cluster.ts'
import { type DebianProgram, findDebianProgram } from './debian-program.ts'

const execute = promisify(execFile)

/** An OpenLDAP server for one test file. */
export interface TestDirectory {
  /** Plain or StartTLS. */
  readonly port: number
  readonly tlsPort: number
  stop(): Promise<void>
}

/** Unpacks OpenLDAP's server. Returns the reason if that is impossible. */
export async function findDirectoryServer(): Promise<DebianProgram | string> {
  return await findDebianProgram('slapd', 'usr/sbin/slapd')
}

/** Starts slapd with the entries of an LDIF. Bound users read at most 50 entries, or all in pages. Only the writer writes. */
export async function startTestDirectory(
  { folder, command, env }: DebianProgram,
  content: {
    readonly suffix: string
    readonly ldif: string
    /** A user who reads at most 50 entries, also in pages. */
    readonly limited: string
    readonly writer?: string
    readonly key: string
    readonly cert: string
  },
): Promise<TestDirectory> {
  const home = await makeTestFolder('directory')
  const data = join(home, 'data')
  await mkdir(data)
  const file = async (name: string, text: string): Promise<string> => {
    await writeFile(join(home, name), text, { mode: 0o600 })
    return join(home, name)
  }
  const schema = (name: string): string => `include ${join(folder, 'etc', 'ldap', 'schema', `${name}.schema`)}`
  const configuration = await file(
    'slapd.conf',
    [
      ...['core', 'cosine', 'inetorgperson'].map(schema),
      `pidfile ${join(home, 'slapd.pid')}`,
      `modulepath ${join(folder, 'usr', 'lib', 'ldap')}`,
      'moduleload back_mdb',
      `TLSCertificateFile ${await file('cert.pem', content.cert)}`,
      `TLSCertificateKeyFile ${await file('key.pem', content.key)}`,
      'database mdb',
      'maxsize 67108864',
      'dbnosync',
      `suffix "${content.suffix}"`,
      `directory ${data}`,
      // The first match counts.
      `limits dn.exact="${content.limited}" size=50 size.prtotal=50`,
      'limits users size=50 size.pr=unlimited size.prtotal=unlimited',
      'access to attrs=userPassword by anonymous auth by * none',
      `access to * ${content.writer === undefined ? '' : `by dn.exact="${content.writer}" write `}by users read by * none`,
      '',
    ].join('\n'),
  )
  const ldif = await file('entries.ldif', content.ldif)
  await execute(command, ['-T', 'add', '-q', '-f', configuration, '-l', ldif], { env, timeout: 60_000 })
  const port = await findFreePort()
  const tlsPort = await findFreePort()
  const server = await launch({
    name: 'slapd',
    command,
    args: ['-d', '0', '-f', configuration, '-h', `ldap://${loopback}:${port} ldaps://${loopback}:${tlsPort}`],
    env,
    cwd: home,
    logFile: join(home, 'logs', 'slapd.log'),
  })
  await waitUntilReady(server, async () => await accepts(port))
  return {
    port,
    tlsPort,
    stop: async () => {
      await server.stop()
    },
  }
}

async function accepts(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect({ port, host: loopback })
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}
