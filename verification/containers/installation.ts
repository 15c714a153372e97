import { readFileSync } from 'node:fs'
import { installationVariable } from '../../test/support/on-containers.ts'
import { type Compose, type Installation, attach } from './compose.ts'

export function findInstallation(): Compose {
  const path = process.env[installationVariable]
  if (path === undefined) throw new Error('no installation: run this with npm run test:containers')
  const installation: Installation = JSON.parse(readFileSync(path, 'utf8'))
  return attach(installation)
}
