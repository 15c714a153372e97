import { basename, dirname } from 'node:path'
import { maskKeys } from '@postern/api-key'
import { CliError, unavailableError } from '../cli-error.ts'
import { exitCodes } from '../exit-code.ts'
import { printable } from '../printable.ts'
import { type Leak, scanPath } from '../scan-files.ts'
import { scanHistory } from '../scan-history.ts'
import { type CommandContext, type OutputOptions, printJson } from '../session.ts'

/** More are counted only. */
const maxShown = 1000

/** Finds keys in files and in the history of Git repositories, without a network. Throws if there is one. */
export async function scanKeys(
  context: CommandContext,
  paths: readonly string[],
  options: OutputOptions & { readonly history: boolean },
): Promise<void> {
  const shown: Leak[] = []
  const unread: string[] = []
  let unreadCount = 0
  const repositories = new Set<string>()
  let count = 0
  const report = {
    onLeak: (leak: Leak) => {
      count += 1
      if (shown.length < maxShown) shown.push({ ...leak, path: maskKeys(leak.path) })
    },
    onUnread: (path: string, reason: string) => {
      unreadCount += 1
      if (unreadCount > maxShown) return
      unread.push(maskKeys(path))
      context.note?.(maskKeys(`not scanned: ${path} (${reason})`))
    },
    onRepository: (folder: string) => {
      // Looks like a bare repository, but belongs to the folder around it.
      const isInner = basename(folder) === '.git' && repositories.has(dirname(folder))
      if (!isInner) repositories.add(folder)
    },
  }
  for (const path of paths) await scanPath(path, report)
  if (options.history) for (const folder of repositories) await scanHistory(folder, context.env, report)

  if (options.json) printJson(context, { count, keys: shown, not_scanned: unread })
  else for (const leak of shown) context.print(lineOf(leak))
  if (count > 0) {
    const what = count === 1 ? 'found one key' : `found ${count} keys`
    const line = `${what}: revoke each, then remove it. \`keys find -\` shows whose it is`
    throw new CliError(exitCodes.unexpected, line, { code: 'keys_found', detail: line, count })
  }
  if (unreadCount > 0) throw unavailableError('found no key, but not everything could be scanned')
}

function lineOf({ path, line, masked, object }: Leak): string {
  const place = line === null ? ' (in its name)' : `:${line}`
  // A name may contain a line break.
  return `${printable(path)}${place}  ${masked}${object === null ? '' : `  in Git object ${object.slice(0, 12)}`}`
}
