import * as installation from '@postern/installation'
import { loopback } from './ports.ts'

/** Connection string of a role on this machine. A secret: it holds the password. */
export function roleUrl(role: installation.RoleName, password: string, port: number, database: string): string {
  return installation.roleUrl(role, password, `${loopback}:${port}`, database)
}
