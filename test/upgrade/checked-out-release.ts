import { execFile } from 'node:child_process'
import { access, cp, mkdir, readFile, readdir, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'
import { root } from './releases.ts'

const execute = promisify(execFile)

export const isShallow = await execute('git', ['rev-parse', '--is-shallow-repository'], { cwd: root }).then(
  ({ stdout }) => stdout.trim() === 'true',
  // No clone at all: an archive of the sources.
  () => true,
)

/** Puts the sources of a release into a folder, with the packages that are installed here. */
export async function checkOut(commit: string, folder: string): Promise<void> {
  const archive = join(folder, 'release.tar')
  await execute('git', ['archive', `--output=${archive}`, commit, 'package.json', 'packages', 'services'], {
    cwd: root,
  })
  await execute('tar', ['--extract', '--file', archive, '--directory', folder])
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  for (const group of ['packages', 'services']) {
    for (const name of await readdir(join(folder, group))) {
      const links = join(root, group, name, 'node_modules')
      // The links are relative: what leads to a package of ours leads to that of the release.
      await cp(links, join(folder, group, name, 'node_modules'), { recursive: true, verbatimSymlinks: true }).catch(
        () => undefined,
      )
      await linkMoved(join(folder, group, name))
    }
  }
}

const manifestSchema = z.object({ dependencies: z.record(z.string(), z.string()).default({}) })

/** Links what a package of the release needs and another package needs now. pnpm keeps a link to each package. */
async function linkMoved(folder: string): Promise<void> {
  const { dependencies } = manifestSchema.parse(JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')))
  for (const name of Object.keys(dependencies).filter((each) => !each.startsWith('@postern/'))) {
    const link = join(folder, 'node_modules', name)
    const isThere = await access(link).then(
      () => true,
      () => false,
    )
    if (isThere) continue
    await mkdir(dirname(link), { recursive: true })
    await symlink(join(root, 'node_modules', '.pnpm', 'node_modules', name), link)
  }
}
