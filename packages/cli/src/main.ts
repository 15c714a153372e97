import { existsSync } from 'node:fs'
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

// The compile cache, shared with npm start, makes later starts faster.
const home = process.env['POSTERN_HOME'] ?? join(import.meta.dirname, '..', '..', '..', '.postern')
if (existsSync(home)) enableCompileCache(join(home, 'cache', 'node'))

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // A pipe such as `postern keys list | head` closes the output early.
  if (error.code === 'EPIPE') process.exit()
  const why = `the output cannot be written (${error.code ?? 'unknown'}). The command may have succeeded. If it created a key, revoke the key, because its value is lost`
  process.stderr.write(`postern: ${why}\n`)
  process.exit(1)
})

const { run } = await import('./run.ts')
process.exitCode = await run(process.argv.slice(2), process.env, {
  out: (said) => process.stdout.write(said),
  err: (said) => process.stderr.write(said),
  isTerminal: process.stderr.isTTY,
  input: async () => {
    const { text } = await import('node:stream/consumers')
    return await text(process.stdin)
  },
})
