import * as installation from '@postern/installation'
import { loopback } from './ports.ts'

/** Returns a connection string, which is a secret because it contains the password. */
export function roleUrl(role: installation.RoleName, password: string, port: number, database: string): string {
  return installation.roleUrl(role, password, `${loopback}:${port}`, database)
}
