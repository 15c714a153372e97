import { findOnPath } from '../distribution-packages.ts'
import { findDebianProgram } from './debian-program.ts'

export interface ModelChecker {
  readonly spin: string
  readonly compiler: string
}

/** Finds Spin and a C compiler on the PATH, else unpacks Spin (Debian, Ubuntu). Returns the reason if one is missing. */
export async function findModelChecker(): Promise<ModelChecker | string> {
  const compiler = (await findOnPath('gcc')) ?? (await findOnPath('cc')) ?? (await findOnPath('clang'))
  if (compiler === undefined) return 'no C compiler is on the PATH (gcc, cc or clang)'
  const installed = await findOnPath('spin')
  if (installed !== undefined) return { spin: installed, compiler }
  const unpacked = await findDebianProgram('spin', 'usr/bin/spin')
  return typeof unpacked === 'string' ? unpacked : { spin: unpacked.command, compiler }
}
