import { chmod, copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findDebianProgram } from './debian-program.ts'

export interface FakeClock {
  readonly env: Readonly<Record<string, string>>
  /** Sets its offset from the machine's clock, in seconds. Processes notice within a second. */
  set(offsetSeconds: number): Promise<void>
  remove(): Promise<void>
}

/**
 * Creates a clock with libfaketime from the distribution's package (Debian, Ubuntu). The monotonic clock does not change.
 * Returns the reason if that is impossible.
 */
export async function makeFakeClock(): Promise<FakeClock | string> {
  const machine = process.arch === 'arm64' ? 'aarch64' : 'x86_64'
  const library = await findDebianProgram('libfaketime', `usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`)
  if (typeof library === 'string') return library
  const folder = await mkdtemp(join(tmpdir(), 'postern-clock-'))
  // Processes of another account may not reach the repository.
  await chmod(folder, 0o755)
  const [copy, file] = [join(folder, 'libfaketimeMT.so.1'), join(folder, 'offset')]
  await copyFile(library.command, copy)
  await chmod(copy, 0o644)
  const set = async (offsetSeconds: number): Promise<void> => {
    await writeFile(file, `${offsetSeconds < 0 ? '-' : '+'}${Math.abs(offsetSeconds)}\n`, { mode: 0o644 })
  }
  await set(0)
  return {
    env: {
      LD_PRELOAD: copy,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_CACHE_DURATION: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      DONT_FAKE_MONOTONIC: '1',
    },
    set,
    remove: async () => await rm(folder, { recursive: true, force: true }),
  }
}
