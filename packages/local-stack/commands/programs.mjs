import { join } from 'node:path'
import { ensurePrograms, findPrograms } from '../programs.mjs'
import { follow } from './follow.mjs'

export function fromSource(path) {
  return async (context, args) =>
    await follow(context.node, ['--conditions=@postern/source', join(context.root, path), ...args], context)
}

export function fromProgram(name) {
  return async (context, args) => await follow(context.node, [programs(context).pathOf(name), ...args], context)
}

function programs({ node, alone }) {
  const found = findPrograms()
  return found.isBuilt ? found : alone(() => ensurePrograms(node))
}
