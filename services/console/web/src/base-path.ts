/** Path prefix such as `/postern-console`; empty at the root. */
function basePath(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="base-path"]')?.content ?? ''
}

export function publicPath(path: string): string {
  return basePath() + path
}

export function consolePath(path: string): string {
  const base = basePath()
  if (path === base) return '/'
  return path.startsWith(`${base}/`) ? path.slice(base.length) : path
}
