import { follow } from './follow.mjs'

export function inventory(args) {
  return async (context, more) => await follow(context.findPnpm(), [...args, ...more], context)
}

export const installed = ['gateway', 'console', 'keys', 'findings', 'universe', 'evidence', 'sync', 'cli'].flatMap(
  (name) => ['--filter-prod', `@postern/${name}...`],
)
