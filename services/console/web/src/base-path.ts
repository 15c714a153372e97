/** Returns the path prefix of the console, such as `/postern-console`; empty at the root. */
function basePath(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="base-path"]')?.content ?? ''
}

/** Returns the path at which the browser reaches a path of the console. */
export function publicPath(path: string): string {
  return basePath() + path
}

/** Returns the path within the console of a path that the browser has open. */
export function consolePath(path: string): string {
  const base = basePath()
  if (path === base) return '/'
  return path.startsWith(`${base}/`) ? path.slice(base.length) : path
}
