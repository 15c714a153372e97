import { follow } from './follow.mjs'

/** Returns a command that lists the packages of an installation, as pnpm finds them in the lock file. */
export function inventory(args) {
  return async (context, more) => await follow(context.findPnpm(), [...args, ...more], context)
}

/** The contents of the image, from deploy/Dockerfile. */
export const installed = ['gateway', 'console', 'keys', 'findings', 'universe', 'evidence', 'sync', 'cli'].flatMap(
  (name) => ['--filter-prod', `@postern/${name}...`],
)
